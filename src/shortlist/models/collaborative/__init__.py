"""Models of which users interacted with which items."""
