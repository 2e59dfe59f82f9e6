"""Experiments with single models and with pipelines of them."""
