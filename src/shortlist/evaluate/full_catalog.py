"""Rankings of the whole catalogue in bounded memory: no sampled negatives, no matrix of users x items."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import HeldOut, Query
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.scores import Scores, score_slates
from shortlist.index import search, top
from shortlist.models.model import Model, VectorModel
from shortlist.progress import Progress, silent, tracked

ScoreBlock = Callable[[Query, slice], Tensor]  # (requests, item rows start:stop) -> [B, stop - start]
Best = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # histories, users, excluded items -> rows [B, <= k]

ROWS = 1 << 32  # room for an item row below the score in a key
BUDGET = 1 << 28  # bytes of scores in memory at once, for a model that scores all items
COPIES = 4  # of those scores during the search for the best


@torch.no_grad()
def rank_model(model: Model, held_out: HeldOut, k: int, *, repeats: bool = False, batch: int = 256) -> Tensor:
    """The rows of the k best items of each request, best first [C, k], -1 past the last.

    Every request has its whole history, of which the model reads the last `max_history` items. Items of the history are
    left out unless `repeats`. At most `batch` requests are ranked at once, fewer where the scores of a model without
    vectors would take too much memory. Equal scores are ordered by row; items with NaN scores are not ranked. Runs in
    eval mode on the device of the model; the result is on the CPU.
    """
    if k < 1 or batch < 1:
        raise ConfigError(f"rank_model: k and batch must be positive, got {k} and {batch}")
    was_training = model.training
    model.eval()
    try:
        best = _by_vectors(model, k) if isinstance(model, VectorModel) else _by_scores(model, k)
        size = batch if isinstance(model, VectorModel) else min(batch, batch_in_budget(model.config.n_items))
        return _ranked(best, held_out, k, repeats, size, model.device)
    finally:
        model.train(was_training)


def batch_in_budget(n_items: int) -> int:
    """How many requests can be scored against all items within the memory budget, at least one."""
    return max(1, BUDGET // (4 * COPIES * max(n_items, 1)))


def _by_vectors(model: VectorModel, k: int) -> Best:
    vectors = model.vectors()
    return lambda history, user, seen: search(vectors, model.users(history, user), k, exclude=seen)[0]


def _by_scores(model: Model, k: int) -> Best:
    def best(history: Tensor, user: Tensor, seen: Tensor | None) -> Tensor:
        scores = model.scores(history, user)  # [B, N]
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        scores, items = top(scores, k, seen)
        return items.masked_fill(scores == -torch.inf, -1)

    return best


def _ranked(best: Best, held_out: HeldOut, k: int, repeats: bool, size: int, device: torch.device) -> Tensor:
    ranked = torch.full((len(held_out), k), -1)
    for rows in _blocks(len(held_out), size):
        batch = held_out.take(rows)
        query = batch.query(width=_longest(batch))
        history, user = query.history.to(device), query.user.to(device)
        items = best(history, user, None if repeats else history).cpu()
        ranked[rows] = pad(items, (0, k - items.shape[1]), value=-1)
    return ranked


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

    Equal scores are ordered by row. Scores that are not finite rank below all that are. Items in `exclude` [B, H],
    padded with -1, are never returned.
    """
    if k < 1 or item_block < 1:
        raise ConfigError(f"top_k_full: k and item_block must be positive, got {k} and {item_block}")
    best = torch.full((len(query), k), torch.iinfo(torch.int64).min)
    for items in _blocks(n_items, item_block):
        scores = _checked(score_block(query, items), len(query), items)
        keys = _keys(_excluded(_finite(scores), exclude, items.start), items.start)
        best = torch.cat([best.to(keys.device), keys], dim=1).topk(k, dim=1).values
    return _items(best), _scores(best)


def evaluate_full(
    score_block: ScoreBlock,
    held_out: HeldOut,
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
    """Score a model on all requests against all items; the model reads the last `width` events of each history.

    Items of the whole history are left out unless `repeats`.
    """
    ranked = [torch.empty((0, max(ks)), dtype=torch.int64)]
    for rows in tracked(list(_blocks(len(held_out), user_batch)), "evaluate", progress):
        seen = None if repeats else held_out.query(rows, width=_longest(held_out.take(rows))).history
        query = held_out.query(rows, width=width)
        items, _ = top_k_full(score_block, query, n_items, max(ks), seen, item_block=item_block)
        ranked.append(items.cpu())
    return score_slates(torch.cat(ranked), held_out.relevant(), ks, popularity, n_users)


def _blocks(total: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _longest(held_out: HeldOut) -> int:
    return int(held_out.history_lengths().max(initial=0))


def _checked(scores: Tensor, count: int, items: slice) -> Tensor:
    expected = (count, items.stop - items.start)
    if tuple(scores.shape) != expected:
        raise DataError(f"top_k_full: expected scores of shape {list(expected)}, got {list(scores.shape)}")
    return scores.detach().to(torch.float32)


def _finite(scores: Tensor) -> Tensor:
    low = torch.finfo(torch.float32).min
    return torch.nan_to_num(scores, nan=low, posinf=low, neginf=low)


def _excluded(scores: Tensor, exclude: Tensor | None, start: int) -> Tensor:
    """-inf where an item of this block is excluded [B, width]."""
    if exclude is None:
        return scores
    width = scores.shape[1]
    at = exclude.to(scores.device) - start  # [B, H]
    inside = (at >= 0) & (at < width)
    # Items of other blocks write into one extra column, which is cut off again.
    return pad(scores, (0, 1)).scatter(1, torch.where(inside, at, width), -torch.inf)[:, :width]


def _keys(scores: Tensor, start: int) -> Tensor:
    """Distinct integers in the order of (score, lower row): their top-k has no ties."""
    bits = (scores + 0.0).view(torch.int32)  # + 0.0 turns -0.0 into 0.0
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
