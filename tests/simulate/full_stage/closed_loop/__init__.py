"""Tests of the closed loop."""
