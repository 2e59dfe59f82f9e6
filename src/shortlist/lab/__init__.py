"""Experiments, benchmarks and theory: nothing in the product imports this room."""
