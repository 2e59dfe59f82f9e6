"""Trainers of models that count, without gradients."""
