"""Learned against random item pools, offline: Figure 5."""
