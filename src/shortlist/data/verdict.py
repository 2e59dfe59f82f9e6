"""The verdict of a data report: what a log holds, which models it suits, how it is measured."""

import numpy as np

from shortlist.data.dataset import Dataset
from shortlist.data.split import Split

FEW = 5  # a user or an item with fewer events counts as cold
LONG = 20  # least median length of histories that is called enough for sequence models
MATCHED = 0.5  # least share of described items without a warning


def verdict(dataset: Dataset, split: Split | None) -> tuple[str, ...]:
    """Three sentences: sizes, what the lengths of histories mean for models, how it is measured (None: not at all)."""
    if not len(dataset.events):
        return ("No events.",)
    return _sizes(dataset), _histories(dataset), _measured(dataset, split)


def warnings(dataset: Dataset) -> tuple[str, ...]:
    """What should be fixed before training, each in one sentence with numbers."""
    catalog, items = dataset.catalog, len(dataset.catalog)
    if not catalog.table.num_columns or catalog.described >= MATCHED * items:
        return ()
    return (
        f"the item table describes {catalog.described:,} of {items:,} items ({catalog.described / items:.0%}): the "
        "others have no title and no category; check the column of ids (--column item.id=NAME), or add the items",
    )


def _sizes(dataset: Dataset) -> str:
    events = dataset.events
    days = round(float(np.ptp(events.times)) / 86_400_000)
    when = f" in {days:,} days" if days > 1 else " within two days"
    span = when if dataset.clock == "ms" else ", no times"
    return f"{len(events):,} events of {events.n_users:,} users with {events.n_items:,} items{span}."


def _histories(dataset: Dataset) -> str:
    lengths = dataset.events.lengths
    few, median = round(100 * float(np.mean(lengths < FEW))), float(np.median(lengths))
    shares = (
        f"{few}% of users have fewer than {FEW} events, {100 - few}% have {FEW} or more (median {median:g})"
    )
    return f"{shares}: {_meaning(median)}."


def _meaning(median: float) -> str:
    """What the median length of histories means for models."""
    if median < FEW:
        return (
            "most users have too few events to learn an order from, so co-visits and popularity suit them better than "
            "sequence models"
        )
    if median < LONG:
        return (
            "short histories; co-visits and matrix factorisation suit them, and a sequence model must be compared with "
            "these, because it sees few events of a user before each target"
        )
    return "enough for sequence models and for matrix factorisation"


def _measured(dataset: Dataset, split: Split | None) -> str:
    if split is None:
        return "It is too small for its split: nothing can be measured."
    name, requests = str(split.settings["protocol"]), len(split.test)
    reason = dataset.facts.split_reason.removeprefix(f"{name}: ")
    measured = f"Models are measured by {name} on {requests:,} test requests"
    return f"{measured}, because {reason}." if reason else f"{measured}."
