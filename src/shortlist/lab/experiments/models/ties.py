"""Leave-last-out with events of one second in the order of the file, and ordered by a hash of user and item.

In MovieLens-1M the last event of 42 % of the users shares its second with the one before, so the order of the file
decides which item is the test item and which one is the last of the history.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shortlist.data import Dataset
from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import AUTO, HASHED, Setup, dataset_of
from shortlist.lab.experiments.models.system_table import DECIDES, SOURCE, SystemTable
from shortlist.lab.result import Claim, Difference, Result, claim, result, row, start
from shortlist.metrics.significance import paired
from shortlist.progress import Progress, silent

SYSTEMS = (AUTO, "sasrec", "last-click", "ease")
ORDERED = ("sasrec", "last-click")  # they use the order of a history
PROTOCOL = "leave-last-out"


def ties(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Result:
    """Four systems under both orders, on MovieLens-1M or a small log of shoppers."""
    began, is_quick = start(), profile == "quick"
    name = _data(data, profile)
    file_order, hashed = Setup(name, PROTOCOL), Setup(name, f"{PROTOCOL}{HASHED}")
    table = SystemTable.filled(
        AnswerCache.open(cache_file),
        (file_order, hashed),
        seeds,
        SYSTEMS,
        folder=data,
        is_quick=is_quick,
        jobs=jobs,
        only=only,
        progress=progress,
    )
    share = tied_share(dataset_of(file_order, seeds[0], data, is_quick))
    changes = _changes(table, file_order, hashed)
    return result(
        "ties",
        profile,
        seeds,
        began,
        [*table.rows(), row("last events at the time of the one before", "share of users", [share])],
        [*table.claims(), *_claims(changes)],
        settings=table.settings,
        training=table.cache.training,
        differences=(*table.differences(), *changes),
        skipped=table.skipped(),
        note=table.cache.origins,
    )


def tied_share(dataset: Dataset) -> float:
    """The share of users whose last event has the time of the one before."""
    events = dataset.events
    last = events.starts[1:][events.lengths > 1] - 1
    return float(np.mean(events.times[last] == events.times[last - 1]))


def _data(data: Path | None, profile: str) -> str:
    if profile not in ("quick", "full"):
        raise ConfigError(f"ties: expected the profile quick or full, got {profile!r}")
    if profile == "full" and data is None:
        raise ConfigError("ties: the full profile needs --data, a folder that holds ml-1m/ml-1m.zip")
    return "ml-1m" if profile == "full" else "amazon-like"


def _changes(table: SystemTable, file_order: Setup, hashed: Setup) -> list[Difference]:
    """What the order of the file adds to each system, paired by user: the users are the same, their last items not."""
    found = []
    for system in SYSTEMS:
        values = [table.user_values(setup, system) for setup in (file_order, hashed)]
        if all(len(one) for one in values):
            test = paired(values[0], values[1], 0)
            where = f"{file_order.data}, {system}"
            found.append(
                Difference(
                    where,
                    "file order",
                    "hashed ties",
                    DECIDES,
                    test.difference,
                    test.low,
                    test.high,
                    len(values[0]),
                )
            )
    return found


def _claims(changes: Sequence[Difference]) -> list[Claim]:
    return [
        claim(
            f"the order of the file helps on {one.where}",
            SOURCE,
            one.low > 0,
            one.estimate,
            f"{one.metric} with file order minus that with hashed ties, paired by user",
            [one.low, one.high],
        )
        for one in changes
        if one.where.endswith(ORDERED)
    ]
