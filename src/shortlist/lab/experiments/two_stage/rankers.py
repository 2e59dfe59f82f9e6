"""DIN rankers trained in different ways on the instances of a trial, and the items they rank first."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.membership import is_in
from shortlist.lab.experiments.two_stage.trial import Arm, TwoStages
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.pipeline.about import TrainingHistory
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.loop import Loop
from shortlist.train.rankers.training_data.weights import Weights
from shortlist.train.tree.validation import full_histories


@dataclass(frozen=True, eq=False)
class TrainedRanker:
    """A ranker and how its training went."""

    model: DINRanker
    history: TrainingHistory
    seconds: float
    instances: int  # with a weight above 0
    effective_share: float  # effective sample size over the number of instances
    clipped_share: float


def train_ranker(stages: TwoStages, arm: Arm) -> TrainedRanker:
    """A ranker of one arm; early stopping by P@1 of validation users at the middle K."""
    began, sizes, weights = time.perf_counter(), stages.sizes, stages.weights(arm)
    _ = stages.valid  # the tree is trained before the clock of the ranker's epochs
    torch.manual_seed(stages.trial.seed)
    model = DINRanker(
        DINRankerConfig(stages.n_items, stages.max_history, sizes.width, sizes.attention, sizes.hidden)
    ).to(stages.device)
    if stages.device.type == "cuda":
        model._score = _compiled(model._score)  # type: ignore[method-assign, assignment]
    loop = Loop(sizes.epochs, sizes.learning_rate, 1e-4, sizes.patience)
    validation = loop.run(
        model,
        _batches(stages, model, arm, weights),
        sizes.steps,
        "ranker",
        stages.trial.progress,
        lambda: _validate(stages, model),
    )
    return TrainedRanker(
        model,
        history_of(validation, loop.epochs, loop.patience),
        time.perf_counter() - began,
        int((weights.values > 0).sum()),
        weights.effective_share,
        weights.clipped_share,
    )


def _batches(
    stages: TwoStages, model: DINRanker, arm: Arm, weights: Weights
) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
    """Batches of instances with a weight; a step is one function on the same tensors, so that it can be recorded."""
    weighted = torch.from_numpy(np.flatnonzero(weights.values > 0)).to(stages.device)
    # Mean 1 over the weighted instances: a filter is the mean loss of the instances it leaves, and gradient clipping
    # treats all arms alike.
    normalised = weights.values / weights.values[weights.values > 0].mean()
    weight = torch.from_numpy(normalised.astype(np.float32)).to(stages.device)
    candidates = _candidates(stages, arm)
    _ = stages.later, stages.ends, stages.targets, stages.histories  # on the device before a step is recorded
    batch = torch.zeros(min(stages.sizes.batch_size, len(weighted)), dtype=torch.int64, device=stages.device)

    def loss() -> Tensor:
        return _loss(stages, model, arm, batch, weight, candidates)

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        generator = torch.Generator().manual_seed(stages.trial.seed * 10_007 + epoch)
        need, order = stages.sizes.steps * len(batch), []
        for _ in range(math.ceil(need / len(weighted))):
            order.append(torch.randperm(len(weighted), generator=generator))
        rows = weighted[torch.cat(order)[:need].to(stages.device)]
        for part in torch.split(rows, len(batch)):
            batch.copy_(part)
            yield loss

    return batches


def _candidates(stages: TwoStages, arm: Arm) -> Tensor | None:
    """The retrieved items of each instance, where negatives are sampled from them [m, K]."""
    if arm.negatives == "catalogue":
        return None
    kind = stages.histories.dtype
    return stages.flags(arm.flags).found[:, : arm.k or stages.sizes.middle].to(kind).to(stages.device)


def _loss(
    stages: TwoStages, model: DINRanker, arm: Arm, rows: Tensor, weight: Tensor, candidates: Tensor | None
) -> Tensor:
    """The weighted mean sampled softmax loss of a batch of instances."""
    negatives = _negatives(stages, arm, rows, candidates)
    items = torch.cat([stages.targets[rows][:, None], negatives], dim=1)
    with torch.autocast(rows.device.type, torch.bfloat16, enabled=rows.is_cuda):
        scores = model.score_rows(stages.histories[rows].long(), items).float()
    # Negatives from two sources have no single sampling distribution: only those of the catalogue are corrected.
    correction = math.log((stages.n_items - 1) / stages.sizes.negatives) if candidates is None else 0.0
    masked = stages.later.among(negatives, stages.ends[rows]) | (negatives < 0)
    logits = (scores[:, 1:] + correction).masked_fill(masked, -torch.inf)
    # Together with the target: an instance whose negatives are all masked has the loss 0 and no gradient.
    losses = torch.cat([scores[:, :1], logits], dim=1).logsumexp(1) - scores[:, 0]
    return (losses * weight[rows]).mean()


def _negatives(stages: TwoStages, arm: Arm, rows: Tensor, candidates: Tensor | None) -> Tensor:
    """Random items of the catalogue, of the candidates, or half and half [B, M]; later items are masked afterwards."""
    count = stages.sizes.negatives
    close = 0 if candidates is None else count if arm.negatives == "candidates" else count // 2
    uniform = torch.randint(stages.n_items, (len(rows), count - close), device=rows.device)
    if candidates is None:
        return uniform
    retrieved = candidates[rows].long()  # [B, K]
    order = torch.rand(retrieved.shape, device=rows.device)
    chosen = order.topk(min(close, retrieved.shape[1]), dim=1).indices
    return torch.cat([retrieved.gather(1, chosen), uniform], dim=1)


@torch.no_grad()
def _validate(stages: TwoStages, model: DINRanker) -> float:
    """P@1 of validation users at the middle K."""
    held_out, found, relevant = stages.valid
    first = first_items(stages, model, held_out, found, (stages.sizes.middle,))[:, 0]
    return float(is_in(first[:, None], relevant).float().mean())


@torch.no_grad()
def first_items(
    stages: TwoStages, model: DINRanker, held_out: HeldOut, found: Tensor, ks: tuple[int, ...]
) -> Tensor:
    """The top item of each user for every K [C, len(ks)]: the best of the first K candidates by the ranker.

    Of equal scores, the one retrieved earlier is taken.
    """
    histories = held_out.query(width=stages.max_history).history.to(stages.device)
    parts = range(0, len(held_out), 256)
    scores = torch.cat(
        [model.score_rows(histories[at : at + 256], found[at : at + 256].clamp(min=0)) for at in parts]
    ).masked_fill(found < 0, -torch.inf)
    best = [scores[:, :k].argmax(1, keepdim=True) for k in ks]
    return torch.cat([found.gather(1, one) for one in best], dim=1)


@torch.no_grad()
def first_of_catalogue(stages: TwoStages, model: DINRanker, held_out: HeldOut) -> Tensor:
    """The best item of the whole catalogue by the ranker, without items of the history [C]."""
    histories = held_out.query(width=stages.max_history).history.to(stages.device)
    seen, found = full_histories(held_out).to(stages.device), []
    for at in range(0, len(held_out), 64):
        scores = model.scores(histories[at : at + 64])  # [B, N]
        history = seen[at : at + 64]
        scores = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
        scores.scatter_(1, torch.where(history >= 0, history, stages.n_items), -torch.inf)
        found.append(scores.argmax(1))
    return torch.cat(found)


def _compiled(score: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The same function, compiled for training, where all batches have one shape."""
    compiled = torch.compile(score, dynamic=False)
    return lambda past, rows: compiled(past, rows) if torch.is_grad_enabled() else score(past, rows)
