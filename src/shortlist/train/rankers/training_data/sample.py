"""A sample of the candidates a scorer was trained on, stored in the bundle: `diagnose` compares it with served ones."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.grammar import Scorer, Stage
from shortlist.train.context import RequestBatch

MAX_CANDIDATES = 20_000  # of each scorer
LOW = float(torch.finfo(torch.float32).min)  # replaces scores that are not finite


@torch.no_grad()
def training_sample(
    name: str, stage: Stage, batches: Sequence[RequestBatch], seed: int, most: int = MAX_CANDIDATES
) -> dict[str, Tensor]:
    """Out-of-fold candidates with the fitted scorer's scores, as tensors `NAME.items` and so on.

    `NAME.recall` holds the number of targets among the candidates and the number of targets, of all requests.
    """
    if not isinstance(stage, Scorer) or not batches:
        return {}
    parts = [_rows(stage, batches[at], at) for at in _enough(batches, 4 * most, seed)]
    whole = {what: torch.cat([part[what] for part in parts]) for what in parts[0]}
    some = _whole_requests(whole["request"], most, seed)
    retrieved = sum(int(is_in(one.targets, _valid_items(one)).sum()) for one in batches)
    targets = sum(int((one.targets >= 0).sum()) for one in batches)
    recall = {"recall": torch.tensor([retrieved, targets], dtype=torch.float64)}
    return {f"{name}.{what}": one for what, one in ({k: v[some] for k, v in whole.items()} | recall).items()}


def _enough(batches: Sequence[RequestBatch], rows: int, seed: int) -> list[int]:
    """Random batches until they hold `rows` candidates: scoring all again for a sample would take too long."""
    order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(seed)).tolist()
    count = torch.tensor([int(batches[at].found.valid.sum()) for at in order]).cumsum(0)
    return sorted(order[: int((count < rows).sum()) + 1])


def _whole_requests(request: Tensor, most: int, seed: int) -> Tensor:
    """Rows of random requests, all candidates of each, as many requests as fit, at least one [S]."""
    names, counts = torch.unique(request, return_counts=True)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))
    fit = counts[order].cumsum(0) <= most
    fit[:1] = True
    return torch.isin(request, names[order[fit]]).nonzero().flatten()


def _rows(stage: Scorer, one: RequestBatch, at: int) -> dict[str, Tensor]:
    """The valid candidates of one batch, one row each."""
    valid, width = one.found.valid, max(one.found.shape[1], 1)
    scores = stage.score(one.query, one.found).to(torch.float32)
    request = (at * 1_000_000 + torch.arange(len(valid)))[:, None].expand(-1, width)
    return {
        "items": one.found.items[valid],
        "scores": torch.nan_to_num(scores[valid], nan=LOW, posinf=LOW, neginf=LOW),
        "target": one.is_target[valid],
        "pool": torch.nan_to_num(one.found.scores[valid], nan=0.0, posinf=0.0, neginf=0.0),
        "request": request[valid] if valid.shape[1] else torch.empty(0, dtype=torch.int64),
    }


def _valid_items(one: RequestBatch) -> Tensor:
    return one.found.items.masked_fill(~one.found.valid, -1)
