"""Splits of a log by time where every single event is predicted, and the order of events of the same time."""

from shortlist.data.time_split.split import PARTS, TimeSplit, time_split
from shortlist.data.time_split.ties import hash64, with_tie_order

__all__ = ["PARTS", "TimeSplit", "hash64", "time_split", "with_tie_order"]
