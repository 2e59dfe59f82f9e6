"""Held-out requests to look up one by one: history, relevant items, what each stage did with them, slate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Dataset, HeldOut, open_dataset
from shortlist.evaluate.losses import Fates, fates
from shortlist.evaluate.protocol.held_out import held_out_part, split_of
from shortlist.evaluate.protocol.measures import SLATE
from shortlist.pipeline import Recommender, Slate, open_recommender, run
from shortlist.pipeline.batch.held_out import BATCH, longest_history
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import Item, resized
from shortlist.pipeline.trace import RETURNED

REQUESTS = 20_000  # at most
SIZE = 8_000_000  # characters of all requests and items, about: a page stays small enough to open
HISTORY = 30  # latest items of a history
RELEVANT = 100  # relevant items of a request

Numbers = tuple[int, ...]
Positions = NDArray[np.int64]


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
    users: Sequence[int | str] = (),
    requests: int = REQUESTS,
    size: int = SIZE,
    seed: int = 0,
) -> UserLookup:
    """All requests of one part of the split, with slates of `k` items.

    Of a larger part, a random sample of at most `requests` and of about `size` characters. Requests of `users` are
    always there.
    """
    opened, dataset = open_recommender(bundle).as_measured(), open_dataset(data)
    held_out = held_out_part(split_of(opened, dataset), on)
    kept = np.isin(held_out.users, [dataset.users.row(user) for user in users])
    parts = _parts(kept, requests, np.random.default_rng([seed, 4]))
    return _lookup(opened, dataset, held_out, parts, on, k, size)


def _parts(kept: NDArray[np.bool_], requests: int, rng: np.random.Generator) -> list[Positions]:
    """Batches of requests in random order; those with a kept request come first."""
    order = rng.permutation(len(kept))
    chosen = np.sort(order[np.argsort(~kept[order], kind="stable")][:requests])
    batches = [chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)]
    shuffled = [batches[at] for at in rng.permutation(len(batches))]
    return sorted(shuffled, key=lambda batch: not kept[batch].any())


@torch.no_grad()
def _lookup(
    bundle: Recommender,
    data: Dataset,
    held_out: HeldOut,
    parts: Sequence[Positions],
    on: str,
    k: int,
    size: int,
) -> UserLookup:
    """Batches of requests until `size` characters are reached, in the order of the split."""
    pipeline = resized(offline(bundle.pipeline), k)
    rows: dict[int, int] = {}  # item row -> position among the items of the page
    found, trace, used = dict[int, LookedUp](), None, 0
    for positions in parts:
        if used >= size:
            break
        part, before = held_out.take(positions), len(rows)
        slate = run(pipeline, part.query(width=longest_history(part)))
        batch = list(_requests(slate, part, data, rows))
        found.update(zip(positions.tolist(), batch, strict=True))
        used += _length(batch) + _length([bundle.item(row) for row in list(rows)[before:]])
        trace = slate.trace
    steps = () if trace is None else trace.steps
    return UserLookup(
        on,
        len(held_out),
        tuple(step.name for step in steps),
        tuple(step.kind for step in steps),
        tuple(part.name for part in steps[0].parts) if steps else (),
        tuple(bundle.item(row) for row in rows),
        tuple(found[position] for position in sorted(found)),
    )


def _length(shown: Sequence[LookedUp | Item]) -> int:
    """Characters of their values, about as many as in a page."""
    return sum(len(repr([*vars(one).values()]).replace(", ", ",")) for one in shown)


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
