"""The training loop that all trainers share, and its parts."""
