"""A sample of the candidates a scorer learned on, kept with it: one day they are held against those it is served."""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.grammar import Scorer, Stage
from shortlist.train.context import RequestBatch

MOST = 20_000  # candidates kept of each scorer
LOW = float(torch.finfo(torch.float32).min)  # what is no number sinks


@torch.no_grad()
def recorded(
    name: str, stage: Stage, rounds: Sequence[RequestBatch], seed: int, most: int = MOST
) -> dict[str, Tensor]:
    """Candidates of rehearsed requests with what the fitted scorer says of them, as tensors `NAME.items` and so on.

    `recall` holds how many wanted items were among the candidates and how many there were, of all requests.
    """
    if not isinstance(stage, Scorer) or not rounds:
        return {}
    parts = [_told(stage, rounds[at], at) for at in _enough(rounds, 4 * most, seed)]
    whole = {what: torch.cat([part[what] for part in parts]) for what in parts[0]}
    some = _whole_requests(whole["request"], most, seed)
    found = sum(int(is_in(one.truth, _there(one)).sum()) for one in rounds)
    wanted = sum(int((one.truth >= 0).sum()) for one in rounds)
    recall = {"recall": torch.tensor([found, wanted], dtype=torch.float64)}
    return {f"{name}.{what}": one for what, one in ({k: v[some] for k, v in whole.items()} | recall).items()}


def _enough(rounds: Sequence[RequestBatch], rows: int, seed: int) -> list[int]:
    """Rounds by lot until they hold so many candidates: not everything is scored again for a sample."""
    order = torch.randperm(len(rounds), generator=torch.Generator().manual_seed(seed)).tolist()
    held = torch.tensor([int(rounds[at].found.valid.sum()) for at in order]).cumsum(0)
    return sorted(order[: int((held < rows).sum()) + 1])


def _whole_requests(request: Tensor, most: int, seed: int) -> Tensor:
    """Rows of requests drawn by lot, all candidates of each, as many as fit, at least one [S]."""
    names, counts = torch.unique(request, return_counts=True)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))
    fit = counts[order].cumsum(0) <= most
    fit[:1] = True
    return torch.isin(request, names[order[fit]]).nonzero().flatten()


def _told(stage: Scorer, one: RequestBatch, at: int) -> dict[str, Tensor]:
    """The valid candidates of one round, in rows."""
    valid, width = one.found.valid, max(one.found.shape[1], 1)
    scores = stage.score(one.query, one.found).to(torch.float32)
    request = (at * 1_000_000 + torch.arange(len(valid)))[:, None].expand(-1, width)
    return {
        "items": one.found.items[valid],
        "scores": torch.nan_to_num(scores[valid], nan=LOW, posinf=LOW, neginf=LOW),
        "wanted": one.wanted[valid],
        "pool": torch.nan_to_num(one.found.scores[valid], nan=0.0, posinf=0.0, neginf=0.0),
        "request": request[valid] if valid.shape[1] else torch.empty(0, dtype=torch.int64),
    }


def _there(one: RequestBatch) -> Tensor:
    return one.found.items.masked_fill(~one.found.valid, -1)
