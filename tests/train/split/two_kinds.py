"""Users of two kinds, and a nominator for each kind."""

import torch

from shortlist.data import Candidates, Interactions, Query
from shortlist.train.context import RequestBatch

NAMES = ("left", "right")
USERS, LENGTH, LISTED = 60, 6, 20


def batch_of(kinds):
    """Users of kind 0 have items below 20, and their targets are in the list of `left`; kind 1 the other way round."""
    generator = torch.Generator().manual_seed(0)
    history = torch.randint(0, 20, (len(kinds), LENGTH), generator=generator) + 20 * kinds[:, None]
    items = torch.arange(2 * LISTED).expand(len(kinds), -1)
    place = torch.arange(LISTED).float()
    none = torch.full((LISTED,), torch.nan)
    ranks = {"left.rank": torch.cat([place, none]), "right.rank": torch.cat([none, place])}
    columns = {name: one.expand(len(kinds), -1) for name, one in ranks.items()}
    found = Candidates.of(items, -items.float(), columns)
    targets = torch.stack([kinds * LISTED + 9, kinds * LISTED + 4], dim=1)
    rows = torch.arange(len(kinds))
    return RequestBatch(Query(rows, history, rows, rows), found, targets)


def events_of(batch):
    """The histories of a batch as events."""
    users = torch.arange(USERS).repeat_interleave(LENGTH)
    history = batch.query.history.flatten()
    return Interactions.of(users.numpy(), history.numpy(), n_users=USERS, n_items=40)


def recall_of(split, batch):
    """The share of each request's targets that are kept."""
    kept = split(batch.query, batch.found)
    hits = (kept.items[:, :, None] == batch.targets[:, None]) & kept.valid[:, :, None]
    return hits.any(1).float().mean(1)
