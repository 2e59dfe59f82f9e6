"""What is checked and prepared before a training."""
