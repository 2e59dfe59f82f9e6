"""Rank the whole catalogue in bounded memory: no sampled negatives, no matrix of users x items."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import HeldOut, Query
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.progress import Progress, silent, tracked

ScoreBlock = Callable[[Query, slice], Tensor]  # (requests, item rows start:stop) -> [B, stop - start]

ROWS = 1 << 32  # room for an item row below the score in a key


def top_k_full(
    score_block: ScoreBlock,
    query: Query,
    n_items: int,
    k: int,
    exclude: Tensor | None = None,
    *,
    item_block: int = 8192,
) -> tuple[Tensor, Tensor]:
    """The k best items of each request and their scores as float32 [B, k]; -1 and -inf past the last.

    Equal scores go to the lower row. A score that is no finite number lies below all that are. Items in
    `exclude` [B, H], -1 for padding, are never returned.
    """
    if k < 1 or item_block < 1:
        raise ConfigError(f"top_k_full: k and item_block must be positive, got {k} and {item_block}")
    best = torch.full((len(query), k), torch.iinfo(torch.int64).min)
    for items in _blocks(n_items, item_block):
        scores = _checked(score_block(query, items), len(query), items)
        keys = _keys(_hidden(_finite(scores), exclude, items.start), items.start)
        best = torch.cat([best.to(keys.device), keys], dim=1).topk(k, dim=1).values
    return _items(best), _scores(best)


def evaluate_full(
    score_block: ScoreBlock,
    cases: HeldOut,
    n_items: int,
    ks: Sequence[int] = (10, 20, 50),
    *,
    popularity: Tensor | None = None,
    n_users: int | None = None,
    width: int = 69,
    repeats: bool = False,
    user_batch: int = 256,
    item_block: int = 8192,
    progress: Progress = silent,
) -> Scores:
    """Score a model on all cases against all items; the model sees the last `width` events of each history.

    Items of a case's whole history are left out of its ranking, unless `repeats` are welcome.
    """
    ranked = [torch.empty((0, max(ks)), dtype=torch.int64)]
    for rows in tracked(list(_blocks(len(cases), user_batch)), "evaluate", progress):
        met = None if repeats else cases.query(rows, width=_longest(cases.take(rows))).history
        query = cases.query(rows, width=width)
        found, _ = top_k_full(score_block, query, n_items, max(ks), met, item_block=item_block)
        ranked.append(found.cpu())
    return score_slates(torch.cat(ranked), cases.relevant(), ks, popularity, n_users)


def _blocks(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _longest(cases: HeldOut) -> int:
    return int(cases.history_lengths().max(initial=0))


def _checked(scores: Tensor, count: int, items: slice) -> Tensor:
    expected = (count, items.stop - items.start)
    if tuple(scores.shape) != expected:
        raise DataError(f"top_k_full: expected scores of shape {list(expected)}, got {list(scores.shape)}")
    return scores.detach().to(torch.float32)


def _finite(scores: Tensor) -> Tensor:
    low = torch.finfo(torch.float32).min
    return torch.nan_to_num(scores, nan=low, posinf=low, neginf=low)


def _hidden(scores: Tensor, exclude: Tensor | None, start: int) -> Tensor:
    """-inf where an item of this block is excluded [B, width]."""
    if exclude is None:
        return scores
    width = scores.shape[1]
    at = exclude.to(scores.device) - start  # [B, H]
    inside = (at >= 0) & (at < width)
    # One place more takes what lies in other blocks, and is cut off again.
    return pad(scores, (0, 1)).scatter(1, torch.where(inside, at, width), -torch.inf)[:, :width]


def _keys(scores: Tensor, start: int) -> Tensor:
    """Whole numbers in the order of (score, lower row), all different: their top-k has no ties to break."""
    bits = (scores + 0.0).view(torch.int32)  # + 0.0 makes one zero of two
    ordered = torch.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(torch.int64)
    rows = torch.arange(start, start + scores.shape[1], device=scores.device)
    keys = ordered * ROWS + (ROWS - 1 - rows)
    return keys.masked_fill(scores == -torch.inf, torch.iinfo(torch.int64).min)


def _items(keys: Tensor) -> Tensor:
    rows = ROWS - 1 - keys.remainder(ROWS)
    return rows.masked_fill(keys == torch.iinfo(torch.int64).min, -1)


def _scores(keys: Tensor) -> Tensor:
    ordered = keys.div(ROWS, rounding_mode="floor").to(torch.int32)
    bits = torch.where(ordered >= 0, ordered, ordered ^ 0x7FFFFFFF)
    return bits.view(torch.float32).masked_fill(keys == torch.iinfo(torch.int64).min, -torch.inf)
