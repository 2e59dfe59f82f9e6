"""Contract checks for your own stages and models."""

from shortlist.testing.stages import check_stage

__all__ = ["check_stage"]
