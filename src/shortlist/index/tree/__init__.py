"""The tree as arrays: shape, orders, search, change."""
