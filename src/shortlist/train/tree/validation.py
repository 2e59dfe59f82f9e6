"""How good a tree is on held-out requests, measured where it lives."""

import torch
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.windows import gather
from shortlist.index.tree import TreeIndex, exhaustive, search


def answers(
    index: TreeIndex,
    cases: HeldOut,
    k: int = 20,
    beam: int = 150,
    exclude_seen: bool = True,
    product: bool = False,
    full: bool = False,
    chunk: int = 500,
) -> Tensor:
    """The k best items of every case [C, k]; `fresh` leaves out what was seen, `full` scores every leaf."""
    max_history, device = index.scorer.config.max_history, index.tree.item_of_leaf.device
    histories = cases.query(width=max_history).history.to(device)
    seen = everything_seen(cases).to(device) if exclude_seen else None
    found = []
    for start in range(0, len(cases), chunk):
        some = histories[start : start + chunk]
        exclude = None if seen is None else seen[start : start + chunk]
        if full:
            one = exhaustive(index, some, k, exclude=exclude, path=product)
        else:
            one = search(index, some, k, beam=beam, exclude=exclude, path=product)
        found.append(one.items)
    return torch.cat(found).cpu() if found else torch.empty((0, k), dtype=torch.int64)


def everything_seen(cases: HeldOut) -> Tensor:
    """All events before the cut of each case [C, E], -1 = padding."""
    widest = int(cases.history_lengths().max()) if len(cases) else 0
    return torch.from_numpy(gather(cases.events, cases.starts, cases.cuts, widest).astype("int64"))
