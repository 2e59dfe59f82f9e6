"""How JTR is taught."""

from shortlist.train.jtr.trainer import JTRTrainer

__all__ = ["JTRTrainer"]
