"""Plain implementations of what rankers and loss accounts compute: slow, with equal results."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import Candidates
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import Losses, StageTrace
from shortlist.metrics.estimate import Floats
from shortlist.models.ranking.din_ranker import DINRanker
from shortlist.stages.calibrated import TIE_BREAK, Calibration
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.training_data.training_set import RankingLists, TrainingSet

Weights = Sequence[Sequence[float]]


def plain_din(model: DINRanker, history: Tensor, rows: Tensor) -> Tensor:
    """The scores [U, C] of DIN with [a; a * e; e] built for every pair of a history item and a candidate."""
    if model.config.inputs != "din3" or model.config.windows:
        raise ConfigError("plain DIN: expected a model that reads [a; a * e; e] and has one window")
    past, there = model.items(history.where(history >= 0, model.config.n_items)), history >= 0
    e = model.items(rows)  # [U, C, D]
    wide = (*rows.shape, *past.shape[1:])  # [U, C, H, D]
    a, repeated = past[:, None].expand(wide), e[:, :, None].expand(wide)
    x = model.first(torch.cat([a, a * repeated, repeated], dim=-1))
    for activation, layer in zip(model.unit_activations, model.unit, strict=True):
        x = layer(activation(x))
    weights = x * there[:, None, :, None]  # [U, C, H, 1]
    x = torch.cat([(weights * a).sum(2), e], dim=-1)
    for layer, activation in zip(model.layers[:-1], model.activations, strict=True):
        x = activation(layer(x))
    scores: Tensor = model.layers[-1](x).squeeze(-1)
    return scores


def plain_weights(training_set: TrainingSet, number: int) -> list[list[float]]:
    """The weight of every target of a training batch, 0 for padding."""
    values = iter(training_set.weights.values.tolist())
    placed = [
        [
            [next(values) if 0 <= item < training_set.n_items else 0.0 for item in row]
            for row in batch.targets.tolist()
        ]
        for batch in training_set.training[: number + 1]
    ]
    return placed[number]


def plain_lists(training_set: TrainingSet, number: int, epoch: int, weights: Weights) -> RankingLists:
    """The lists of `TrainingSet.lists`, from the same random numbers, one list and one item after the other."""
    batch, sampling = training_set.training[number], training_set.sampling
    generator = torch.Generator().manual_seed(hash((training_set.seed, epoch, number)) & (2**62 - 1))
    chosen = _chosen(
        torch.rand(batch.targets.shape, generator=generator).tolist(), weights, sampling.positives_per_request
    )
    count = sampling.n_negatives
    near = {"catalogue": 0, "candidates": count, "both": count // 2}[sampling.negatives]
    random = torch.rand(len(chosen), batch.found.shape[1], generator=generator).tolist()
    far = torch.randint(training_set.n_items, (len(chosen), count - near), generator=generator).tolist()
    items = _items(batch, chosen, random, far, near)
    rows = [row for row, _ in chosen]
    shift = math.log(training_set.n_items / count) if sampling.logq_correction and near == 0 else 0.0
    return RankingLists(
        batch.query.take(torch.tensor(rows, dtype=torch.int64)),
        _known(batch.found, rows, items),
        pad(torch.ones(len(chosen), 1, dtype=torch.bool), (0, count)),
        pad(torch.full((len(chosen), count), shift), (1, 0)),
        pad(torch.tensor([[weights[row][place]] for row, place in chosen]), (0, count)),
    )


def _chosen(random: Weights, weights: Weights, positives_per_request: int) -> list[tuple[int, int]]:
    """Request and position of the sampled targets: those with the largest random numbers of each request."""
    chosen = []
    for row, (numbers, own) in enumerate(zip(random, weights, strict=True)):
        places = sorted((place for place in range(len(own)) if own[place] > 0), key=lambda at: -numbers[at])
        chosen += [(row, place) for place in places[:positives_per_request]]
    return chosen


def _items(
    batch: RequestBatch,
    chosen: Sequence[tuple[int, int]],
    random: Weights,
    far: Sequence[Sequence[int]],
    near: int,
) -> list[list[int]]:
    """The target, the non-target candidates with the largest random numbers, then random items that may be negatives.

    Targets, later items and items of the history are never sampled.
    """
    targets, items, valid = batch.targets.tolist(), batch.found.items.tolist(), batch.found.valid.tolist()
    history, never = batch.query.history.tolist(), batch.no_negative.tolist()
    lists = []
    for (row, place), numbers, sampled in zip(chosen, random, far, strict=True):
        own = {item for item in targets[row] if item >= 0}
        allowed = [at for at in range(len(items[row])) if valid[row][at] and items[row][at] not in own]
        close = [items[row][at] for at in sorted(allowed, key=lambda at: -numbers[at])[:near]]
        close += [-1] * (near - len(close))
        left_out = {*never[row], *history[row]}
        lists.append([targets[row][place], *close, *(-1 if item in left_out else item for item in sampled)])
    return lists


def _known(found: Candidates, rows: Sequence[int], items: Sequence[Sequence[int]]) -> Candidates:
    """Items as candidates: candidates keep their columns, other items get the lowest score and NaN."""
    there, valid, scores = found.items.tolist(), found.valid.tolist(), found.scores.tolist()
    columns = {name: column.tolist() for name, column in found.columns.items()}
    places = [{item: at for at, item in enumerate(there[row]) if valid[row][at]} for row in rows]
    lowest = [
        min((scores[row][at] for at in at_of.values()), default=0.0)
        for row, at_of in zip(rows, places, strict=True)
    ]

    def read(table: Weights, otherwise: Sequence[float]) -> Tensor:
        values = [
            [table[row][at_of[item]] if item in at_of else missing for item in listed]
            for row, at_of, listed, missing in zip(rows, places, items, otherwise, strict=True)
        ]
        return torch.tensor(values, dtype=torch.float32)

    unknown = [math.nan] * len(rows)
    known = {name: read(table, unknown) for name, table in columns.items()}
    return Candidates.of(torch.tensor(items, dtype=torch.int64), read(scores, lowest), known)


def plain_resampled(per_user: NDArray[np.int64], seed: int, draws: int) -> Floats:
    """Sums over users [draws, M], one resample of users after the other."""
    rng, count = np.random.default_rng([seed, 2]), len(per_user)
    return np.array([per_user[rng.integers(0, count, count)].sum(0) for _ in range(draws)], np.float64)


def plain_decompose(trace: StageTrace) -> Losses:
    """Losses by stage and user, one pair after the other."""
    stages = range(len(trace.names))
    tally: dict[int, tuple[list[int], list[int], list[int]]] = {}
    for user, alive in zip(trace.user.tolist(), trace.alive.tolist(), strict=True):
        relevant, lost, rescued = tally.setdefault(user, ([0], [0 for _ in stages], [0 for _ in stages]))
        relevant[0] += 1
        before = True
        for stage in stages:
            lost[stage] += before and not alive[stage]
            rescued[stage] += alive[stage] and not before
            before = alive[stage]
    users = sorted(tally)
    counts, lost_by, rescued_by = (np.array([tally[user][part] for user in users]) for part in range(3))
    return Losses(trace.names, np.array(users), counts[:, 0], lost_by, rescued_by)


def plain_calibrated(calibration: Calibration, scores: Tensor) -> Tensor:
    """Calibrated probabilities of finite scores, one after the other."""
    values = [_probability(calibration, score) for score in scores.flatten().tolist()]
    return torch.tensor(values, dtype=torch.float32).view(scores.shape)


def _probability(calibration: Calibration, score: float) -> float:
    line: list[float] = calibration.line.tolist()
    mean, spread, slope, shift = line
    z = (score - mean) / spread
    if len(calibration.knots):
        curve = float(np.interp(z, calibration.knots.numpy(), calibration.heights.numpy()))
    else:
        curve = 1 / (1 + math.exp(-(slope * z + shift)))
    return (1 - TIE_BREAK) * curve + TIE_BREAK * (0.5 + 0.5 * z / (1 + abs(z)))
