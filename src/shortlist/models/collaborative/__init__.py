"""collaborative."""
