"""From a log to something that can be served."""

from shortlist.train.material import Material, Round
from shortlist.train.pipeline import train
from shortlist.train.trainers import TRAINERS, Trainer

__all__ = ["TRAINERS", "Material", "Round", "Trainer", "train"]
