"""Models that count events."""
