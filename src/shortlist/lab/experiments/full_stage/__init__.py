"""Experiments of full-stage learning to rank: a stage trained for the stages after it."""
