"""A pipeline composed for a log: plan, budget, choice of nominators, comparison with single models."""
