"""The whole catalogue in the order a model gives it, for held-out requests, in bounded memory."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import HeldOut
from shortlist.errors import ConfigError
from shortlist.index import search, top
from shortlist.index.exact import without
from shortlist.models.model import Model, VectorModel

BUDGET = 1 << 28  # bytes of scores that stand in memory at once, where a model gives scores of all items
COPIES = 4  # of those scores, while the best are sought

Best = Callable[
    [Tensor, Tensor, Tensor | None], Tensor
]  # histories, users, what is left out -> rows [B, <= k]


@torch.no_grad()
def rank_model(model: Model, cases: HeldOut, k: int, *, repeats: bool = False, batch: int = 256) -> Tensor:
    """The rows of the k best items of each case, best first [C, k], -1 past the last.

    Every case is ranked from its whole history, of which the model reads what it remembers. Items of that history are
    left out, unless `repeats` are welcome. At most `batch` cases are ranked at once, fewer where a model that has no
    vectors would take too much memory for its scores. Equal scores go to the lower row; an item whose score is no
    number is not ranked. Runs on the device the model is on, in eval; the answer comes back to the CPU.
    """
    if k < 1 or batch < 1:
        raise ConfigError(f"rank_model: k and batch must be positive, got {k} and {batch}")
    was_training = model.training
    model.eval()
    try:
        best = _by_vectors(model, k) if isinstance(model, VectorModel) else _by_scores(model, k)
        size = batch if isinstance(model, VectorModel) else min(batch, affordable(model.config.n_items))
        return _in_batches(best, cases, k, repeats, size, model.device)
    finally:
        model.train(was_training)


def affordable(n_items: int) -> int:
    """How many users' scores of all items may stand in memory at once, at least one's."""
    return max(1, BUDGET // (4 * COPIES * max(n_items, 1)))


def _by_vectors(model: VectorModel, k: int) -> Best:
    vectors = model.vectors()
    return lambda history, user, met: search(vectors, model.users(history, user), k, exclude=met)[0]


def _by_scores(model: Model, k: int) -> Best:
    def best(history: Tensor, user: Tensor, met: Tensor | None) -> Tensor:
        scores = model.scores(history, user)  # [B, N]
        scores = scores.masked_fill(scores.isnan(), -torch.inf)
        scores, items = top(scores if met is None else without(scores, met), k)
        return items.masked_fill(scores == -torch.inf, -1)

    return best


def _in_batches(best: Best, cases: HeldOut, k: int, repeats: bool, size: int, device: torch.device) -> Tensor:
    ranked = torch.full((len(cases), k), -1)
    for start in range(0, len(cases), size):
        some = cases.take(slice(start, start + size))
        query = some.query(width=int(some.history_lengths().max(initial=0)))
        history, user = query.history.to(device), query.user.to(device)
        items = best(history, user, None if repeats else history).cpu()
        ranked[start : start + size] = pad(items, (0, k - items.shape[1]), value=-1)
    return ranked
