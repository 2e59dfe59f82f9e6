"""Training of JTR."""

from shortlist.train.jtr.trainer import JTRTrainer

__all__ = ["JTRTrainer"]
