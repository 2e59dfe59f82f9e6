"""Feedback events: their columns, their way into the log, and files of them."""
