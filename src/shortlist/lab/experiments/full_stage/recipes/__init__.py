"""Recipes trained by the trainers of the package, from events or from a full-stage log of a world."""
