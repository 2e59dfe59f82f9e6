"""Sizes of sequence models that suit a log and a machine, the better first."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHARE = 0.9  # of the users have histories that are read to their beginning
LEAST, SHORT, MOST = 20, 50, 200  # items of a history that a model reads
MANY_EVENTS = 500_000  # training events from which a wide model pays on a GPU
WIDE: Mapping[str, Mapping[str, int]] = {
    "sasrec": {"width": 256, "heads": 4},
    "gru4rec": {"width": 128, "hidden": 256},
}


def history_length(lengths: NDArray[np.integer[Any]]) -> int:
    """Items of a history that a model should read, from the lengths of the training histories."""
    known = lengths[lengths > 1]
    usual = int(np.ceil(np.quantile(known, SHARE))) if len(known) else LEAST
    return min(max(usual, LEAST), MOST)


def sizes(kind: str, events: int, length: int, gpu: bool) -> list[dict[str, int]]:
    """Settings of the trainer of a sequence model: wide, of usual width, and with a short history."""
    reads = {"max_history": length}
    wide = [{**reads, **WIDE[kind]}] if gpu and events >= MANY_EVENTS else []
    short = [{"max_history": SHORT}] if length > SHORT else []
    return [*wide, reads, *short]
