"""Cells of the two-time-scale tables: places, systems, their training, and what is kept of their answers."""
