"""Experiments with one ranking stage after a retriever, and with the bounds of two-stage recommenders."""
