"""DIN rankers taught in many ways on the instances of a trial, and what they put first."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.membership import is_in
from shortlist.lab.experiments.two_stage.common import Arm, TwoStages
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.train.loop.convergence import course
from shortlist.train.loop.loop import Loop
from shortlist.train.rankers.weights import Weights
from shortlist.train.tree.validation import full_histories


def ranker(stages: TwoStages, arm: Arm) -> tuple[DINRanker, dict[str, Any]]:
    """A ranker taught so, stopped by the first item of validation users at the middle K."""
    began, sizes, weights = time.perf_counter(), stages.sizes, stages.weights(arm)
    _ = stages.valid  # the tree learns now, not while the ranker is judged
    torch.manual_seed(stages.trial.seed)
    model = DINRanker(
        DINRankerConfig(stages.n_items, stages.max_history, sizes.width, sizes.attention, sizes.hidden)
    ).to(stages.device)
    if stages.device.type == "cuda":
        model._score = _fast(model._score)  # type: ignore[method-assign, assignment]
    loop = Loop(sizes.epochs, sizes.learning_rate, 1e-4, sizes.patience)
    judged = loop.run(
        model,
        _batches(stages, model, arm, weights),
        sizes.steps,
        "ranker",
        stages.trial.progress,
        lambda: _judge(stages, model),
    )
    told = {
        "seconds": time.perf_counter() - began,
        "effective": weights.effective_share,
        "clipped": weights.clipped_share,
        "instances": int((weights.values > 0).sum()),
        **course(judged, loop.epochs, loop.patience),
    }
    return model, told


def _batches(
    stages: TwoStages, model: DINRanker, arm: Arm, weights: Weights
) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
    """Batches of instances that count at all; a step is one function on tensors that stay where they are."""
    counted = torch.from_numpy(np.flatnonzero(weights.values > 0)).to(stages.device)
    # Mean 1 over what counts: a filter is the mean loss of what it leaves, and its gradients are clipped like others.
    even = weights.values / weights.values[weights.values > 0].mean()
    weight = torch.from_numpy(even.astype(np.float32)).to(stages.device)
    near = _near(stages, arm)
    held = torch.zeros(min(stages.sizes.batch_size, len(counted)), dtype=torch.int64, device=stages.device)

    def loss() -> Tensor:
        return _loss(stages, model, arm, held, weight, near)

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        generator = torch.Generator().manual_seed(stages.trial.seed * 10_007 + epoch)
        need, order = stages.sizes.steps * len(held), []
        for _ in range(math.ceil(need / len(counted))):
            order.append(torch.randperm(len(counted), generator=generator))
        rows = counted[torch.cat(order)[:need].to(stages.device)]
        for part in torch.split(rows, len(held)):
            held.copy_(part)
            yield loss

    return batches


def _near(stages: TwoStages, arm: Arm) -> Tensor | None:
    """What was retrieved for each instance, where others are drawn from it [m, K]."""
    if arm.negatives == "catalogue":
        return None
    kind = stages.histories.dtype
    return stages.flags(arm.flags).found[:, : arm.k or stages.sizes.middle].to(kind).to(stages.device)


def _loss(
    stages: TwoStages, model: DINRanker, arm: Arm, rows: Tensor, weight: Tensor, near: Tensor | None
) -> Tensor:
    wanted, count = stages.wanted[rows], stages.sizes.others
    close = 0 if near is None else count if arm.negatives == "candidates" else count // 2
    wide = torch.randint(stages.n_items, (len(rows), count - close), device=rows.device)
    others = wide
    if near is not None:
        among = near[rows].long()  # [B, K]
        order = torch.rand(among.shape, device=rows.device).topk(min(close, among.shape[1]), dim=1).indices
        others = torch.cat([among.gather(1, order), wide], dim=1)
    items = torch.cat([wanted[:, None], others], dim=1)
    # Draws of two kinds come from no single distribution: only those of the catalogue alone are corrected.
    shift = math.log((stages.n_items - 1) / count) if near is None else 0.0
    with torch.autocast(rows.device.type, torch.bfloat16, enabled=rows.is_cuda):
        scores = model.score_rows(stages.histories[rows].long(), items).float()
    wrong = (others == wanted[:, None]) | (others < 0)
    rivals = (scores[:, 1:] + shift).masked_fill(wrong, -torch.inf)
    losses = torch.logaddexp(rivals.logsumexp(1), scores[:, 0]) - scores[:, 0]
    return (losses * weight[rows]).mean()


@torch.no_grad()
def _judge(stages: TwoStages, model: DINRanker) -> float:
    cases, found, truth = stages.valid
    first = firsts(stages, model, cases, found, (stages.sizes.middle,))[:, 0]
    return float(is_in(first[:, None], truth).float().mean())


@torch.no_grad()
def firsts(stages: TwoStages, model: DINRanker, cases: HeldOut, found: Tensor, ks: tuple[int, ...]) -> Tensor:
    """The item each case is given for every K [C, len(ks)]: the best of the first K by the ranker.

    Equal scores go to the one retrieved earlier.
    """
    histories = cases.query(width=stages.max_history).history.to(stages.device)
    parts = range(0, len(cases), 256)
    scores = torch.cat(
        [model.score_rows(histories[at : at + 256], found[at : at + 256].clamp(min=0)) for at in parts]
    ).masked_fill(found < 0, -torch.inf)
    best = [scores[:, :k].argmax(1, keepdim=True) for k in ks]
    return torch.cat([found.gather(1, one) for one in best], dim=1)


@torch.no_grad()
def everywhere(stages: TwoStages, model: DINRanker, cases: HeldOut) -> Tensor:
    """The best of the whole catalogue by the ranker, what was seen left out [C]."""
    histories = cases.query(width=stages.max_history).history.to(stages.device)
    seen, found = full_histories(cases).to(stages.device), []
    for at in range(0, len(cases), 64):
        scores = model.scores(histories[at : at + 64])  # [B, N]
        met = seen[at : at + 64]
        scores = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
        scores.scatter_(1, torch.where(met >= 0, met, stages.n_items), -torch.inf)
        found.append(scores.argmax(1))
    return torch.cat(found)


def _fast(work: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The same work, compiled where it is taught, for there all batches have one shape."""
    compiled = torch.compile(work, dynamic=False)
    return lambda past, rows: compiled(past, rows) if torch.is_grad_enabled() else work(past, rows)
