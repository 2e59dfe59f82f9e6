"""Tests of the closed-loop experiment."""
