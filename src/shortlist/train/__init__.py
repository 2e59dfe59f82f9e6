"""A log to something that can be served."""

from shortlist.callable_room import make_callable
from shortlist.train.bundle import train
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.registry import TRAINERS, Trainer

__all__ = ["TRAINERS", "RequestBatch", "TrainContext", "Trainer", "train"]

make_callable(__name__, train)
