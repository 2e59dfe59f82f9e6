"""Scorers of tree nodes: a history and a node in, a number out."""
