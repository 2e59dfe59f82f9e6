"""Trainers of rankers, and the out-of-fold candidates they are trained on."""
