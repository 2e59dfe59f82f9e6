"""From an interaction log to a multi-stage recommender that says which stage lost what."""

__version__ = "0.1.0"
