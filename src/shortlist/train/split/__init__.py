"""Limits of nominators learned from the ranks of targets in out-of-fold lists."""
