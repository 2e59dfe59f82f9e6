"""Samplers of nodes for the training of a tree."""
