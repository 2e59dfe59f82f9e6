"""Models that read the history of a user."""
