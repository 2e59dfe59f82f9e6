"""From a log to something that can be served."""

from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.pipeline import train
from shortlist.train.registry import TRAINERS, Trainer

__all__ = ["TRAINERS", "RequestBatch", "TrainContext", "Trainer", "train"]
