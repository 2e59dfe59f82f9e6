"""Trainers of models: one per way of training, not one per model."""
