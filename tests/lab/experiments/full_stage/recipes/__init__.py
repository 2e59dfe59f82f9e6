"""Tests of the recipes that are trained from a log."""
