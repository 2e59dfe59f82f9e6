"""Contract checks for your own stages and models."""

from shortlist.testing.models import check_better_than_popularity, check_model, check_model_trainer
from shortlist.testing.stages import check_stage

__all__ = ["check_better_than_popularity", "check_model", "check_model_trainer", "check_stage"]
