"""Regret of simulated two-stage systems."""
