"""Interactions, requests, candidates, splits and prepared data sets."""

from shortlist.data.append import append
from shortlist.data.candidates import Candidates, Note, merge
from shortlist.data.catalog import Catalog
from shortlist.data.dataset import Dataset, build_dataset, load_dataset, open_dataset, save_dataset
from shortlist.data.held_out import HeldOut
from shortlist.data.interactions import Interactions
from shortlist.data.query import Query
from shortlist.data.raw_events import RawEvents
from shortlist.data.read import read
from shortlist.data.split import Split, global_time, half_history, leave_last_out, split
from shortlist.data.vocabulary import UNKNOWN, Vocabulary
from shortlist.data.windows import Windows, sliding

__all__ = [
    "UNKNOWN",
    "Candidates",
    "Catalog",
    "Dataset",
    "HeldOut",
    "Interactions",
    "Note",
    "Query",
    "RawEvents",
    "Split",
    "Vocabulary",
    "Windows",
    "append",
    "build_dataset",
    "global_time",
    "half_history",
    "leave_last_out",
    "load_dataset",
    "merge",
    "open_dataset",
    "read",
    "save_dataset",
    "sliding",
    "split",
]
