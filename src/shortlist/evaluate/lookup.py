"""Held-out requests to look up one by one: history, relevant items, what each stage did with them, slate."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from shortlist.data import Dataset, HeldOut, open_dataset
from shortlist.evaluate.evaluation import BATCH, held_out_part, longest_history, split_of
from shortlist.evaluate.losses import Fates, fates
from shortlist.evaluate.measures import SLATE
from shortlist.pipeline import Recommender, Slate, open_recommender, run
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import Item, resized
from shortlist.pipeline.trace import RETURNED

REQUESTS = 500  # at most
HISTORY = 30  # latest items of a history
RELEVANT = 100  # relevant items of a request

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class LookedUp:
    """One held-out request; items are positions in `UserLookup.items`, stages and nominators in its names."""

    user: int | str
    events: int  # of the whole history
    history: Numbers  # latest first
    n_relevant: int
    relevant: Numbers
    lost_at: Numbers  # by relevant item: the stage that lost it, -1 where it is in the slate
    removed: Numbers  # by relevant item: 1 where a filter removed it
    nominated_by: tuple[Numbers, ...]  # by relevant item
    candidates: Numbers  # after each stage
    slate: Numbers


@dataclass(frozen=True)
class UserLookup:
    """Some requests of one part of a split, with the items that occur in them."""

    on: str
    total: int  # requests of that part
    stages: tuple[str, ...]
    kinds: tuple[str, ...]
    nominators: tuple[str, ...]
    items: tuple[Item, ...]
    requests: tuple[LookedUp, ...]


def look_up_users(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    *,
    on: str = "test",
    k: int = SLATE,
    requests: int = REQUESTS,
    seed: int = 0,
) -> UserLookup:
    """All requests of one part of the split, or a random sample of at most `requests`, with slates of `k` items."""
    opened, dataset = open_recommender(bundle).as_measured(), open_dataset(data)
    held_out = held_out_part(split_of(opened, dataset), on)
    chosen = held_out.take(_sampled(len(held_out), requests, seed))
    return _lookup(opened, dataset, chosen, on, len(held_out), k)


def _sampled(total: int, requests: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if total <= requests:
        return np.arange(total)
    return np.sort(np.random.default_rng([seed, 4]).choice(total, requests, replace=False))


@torch.no_grad()
def _lookup(bundle: Recommender, data: Dataset, held_out: HeldOut, on: str, total: int, k: int) -> UserLookup:
    pipeline = resized(offline(bundle.pipeline), k)
    rows: dict[int, int] = {}  # item row -> position among the items of the page
    found, trace = list[LookedUp](), None
    for start in range(0, len(held_out), BATCH):
        part = held_out.take(slice(start, start + BATCH))
        slate = run(pipeline, part.query(width=longest_history(part)))
        found += _requests(slate, part, data, rows)
        trace = slate.trace
    steps = () if trace is None else trace.steps
    return UserLookup(
        on,
        total,
        tuple(step.name for step in steps),
        tuple(step.kind for step in steps),
        tuple(part.name for part in steps[0].parts) if steps else (),
        tuple(bundle.item(row) for row in rows),
        tuple(found),
    )


def _requests(slate: Slate, part: HeldOut, data: Dataset, rows: dict[int, int]) -> Iterator[LookedUp]:
    fate = fates(slate.trace, part.relevant())
    histories = part.query(width=HISTORY).history.flip(1).tolist()
    kept = torch.stack([step.kept for step in slate.trace.steps], 1).tolist()  # [B, S]
    lengths, slates = part.history_lengths().tolist(), slate.items.tolist()
    for number, user in enumerate(part.users.tolist()):
        yield LookedUp(
            data.users.id(user),
            lengths[number],
            _placed(histories[number], rows),
            *_relevant(fate, number, rows),
            tuple(kept[number]),
            _placed(slates[number], rows),
        )


def _relevant(
    fate: Fates, number: int, rows: dict[int, int]
) -> tuple[int, Numbers, Numbers, Numbers, tuple[Numbers, ...]]:
    """The relevant items of one request and what happened to them."""
    items = [item for item in fate.relevant[number].tolist() if item >= 0]
    count = min(len(items), RELEVANT)
    left = fate.left_at[number, :count].tolist()
    by = fate.nominated_by[:, number, :count].T.tolist()  # [R, P]
    return (
        len(items),
        _placed(items[:count], rows),
        tuple(-1 if stage == RETURNED else stage for stage in left),
        tuple(int(one) for one in fate.removed[number, :count].tolist()),
        tuple(tuple(at for at, yes in enumerate(one) if yes) for one in by),
    )


def _placed(items: list[int], rows: dict[int, int]) -> Numbers:
    """Positions of item rows among the items of the page; new ones are added."""
    return tuple(rows.setdefault(item, len(rows)) for item in items if item >= 0)
