"""What happened, and what is asked."""

from shortlist.data.candidates import Candidates, Note, merge
from shortlist.data.catalog import Catalog
from shortlist.data.dataset import Dataset, from_raw, load_dataset, save_dataset
from shortlist.data.held_out import HeldOut
from shortlist.data.interactions import Interactions
from shortlist.data.query import Query
from shortlist.data.raw import Raw
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
    "Raw",
    "Split",
    "Vocabulary",
    "Windows",
    "from_raw",
    "global_time",
    "half_history",
    "leave_last_out",
    "load_dataset",
    "merge",
    "save_dataset",
    "sliding",
    "split",
]
