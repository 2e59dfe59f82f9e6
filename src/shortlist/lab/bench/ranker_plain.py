"""What rankers and their diagnosis compute, as one would first write it: slow, obvious, and always the same answer."""

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
from shortlist.train.rankers.training_set import RankingLists, TrainingSet

Weights = Sequence[Sequence[float]]


def plain_din(model: DINRanker, history: Tensor, rows: Tensor) -> Tensor:
    """The scores [U, C] of DIN with [a; a * e; e] built for every pair of a history's item and a candidate."""
    if model.config.inputs != "din3" or model.config.windows:
        raise ConfigError("plain DIN: expected a model that reads [a; a * e; e] and has one window")
    past, there = model.items(history.where(history >= 0, model.config.n_items)), history >= 0
    e = model.items(rows)  # [U, C, D]
    wide = (*rows.shape, *past.shape[1:])  # [U, C, H, D]
    a, beside = past[:, None].expand(wide), e[:, :, None].expand(wide)
    x = model.first(torch.cat([a, a * beside, beside], dim=-1))
    for bend, layer in zip(model.unit_activations, model.unit, strict=True):
        x = layer(bend(x))
    weights = x * there[:, None, :, None]  # [U, C, H, 1]
    x = torch.cat([(weights * a).sum(2), e], dim=-1)
    for layer, bend in zip(model.layers[:-1], model.activations, strict=True):
        x = bend(layer(x))
    scores: Tensor = model.layers[-1](x).squeeze(-1)
    return scores


def plain_weights(lessons: TrainingSet, number: int) -> list[list[float]]:
    """The weight of every wanted item of a taught round, 0 for padding."""
    values = iter(lessons.weights.values.tolist())
    placed = [
        [[next(values) if 0 <= item < lessons.n_items else 0.0 for item in row] for row in one.targets.tolist()]
        for one in lessons.training[: number + 1]
    ]
    return placed[number]


def plain_lists(lessons: TrainingSet, number: int, epoch: int, weights: Weights) -> RankingLists:
    """The lists of `Lessons.lists`, from the same chance, one list and one item after the other."""
    one, trainer = lessons.training[number], lessons.sampling
    generator = torch.Generator().manual_seed(hash((lessons.seed, epoch, number)) & (2**62 - 1))
    chosen = _chosen(
        torch.rand(one.targets.shape, generator=generator).tolist(), weights, trainer.positives_per_request
    )
    near = {"catalogue": 0, "candidates": trainer.n_negatives, "both": trainer.n_negatives // 2}[
        trainer.negatives
    ]
    luck = torch.rand(len(chosen), one.found.shape[1], generator=generator).tolist()
    far = torch.randint(
        lessons.n_items, (len(chosen), trainer.n_negatives - near), generator=generator
    ).tolist()
    items = _items(one, chosen, luck, far, near)
    rows = [row for row, _ in chosen]
    shift = math.log(lessons.n_items / trainer.n_negatives) if trainer.logq_correction and near == 0 else 0.0
    return RankingLists(
        one.query.take(torch.tensor(rows, dtype=torch.int64)),
        _known(one.found, rows, items),
        pad(torch.ones(len(chosen), 1, dtype=torch.bool), (0, trainer.n_negatives)),
        pad(torch.full((len(chosen), trainer.n_negatives), shift), (1, 0)),
        pad(torch.tensor([[weights[row][place]] for row, place in chosen]), (0, trainer.n_negatives)),
    )


def _chosen(luck: Weights, weights: Weights, positives_per_request: int) -> list[tuple[int, int]]:
    """Request and place of the wanted items that are shown: the luckiest of each request."""
    chosen = []
    for row, (chances, worth) in enumerate(zip(luck, weights, strict=True)):
        places = sorted(
            (place for place in range(len(worth)) if worth[place] > 0), key=lambda at: -chances[at]
        )
        chosen += [(row, place) for place in places[:positives_per_request]]
    return chosen


def _items(
    one: RequestBatch,
    chosen: Sequence[tuple[int, int]],
    luck: Weights,
    far: Sequence[Sequence[int]],
    near: int,
) -> list[list[int]]:
    """The wanted item, the luckiest candidates that are not wanted, then draws from the catalogue that are not."""
    truth, items, valid = one.targets.tolist(), one.found.items.tolist(), one.found.valid.tolist()
    lists = []
    for (row, place), chances, wide in zip(chosen, luck, far, strict=True):
        wanted = {item for item in truth[row] if item >= 0}
        may = [at for at in range(len(items[row])) if valid[row][at] and items[row][at] not in wanted]
        close = [items[row][at] for at in sorted(may, key=lambda at: -chances[at])[:near]]
        close += [-1] * (near - len(close))
        lists.append([truth[row][place], *close, *(-1 if item in wanted else item for item in wide)])
    return lists


def _known(found: Candidates, rows: Sequence[int], items: Sequence[Sequence[int]]) -> Candidates:
    """Items as candidates: what was found keeps what is known of it, the rest gets the lowest score and no number."""
    there, valid, scores = found.items.tolist(), found.valid.tolist(), found.scores.tolist()
    columns = {name: one.tolist() for name, one in found.columns.items()}
    places = [{item: at for at, item in enumerate(there[row]) if valid[row][at]} for row in rows]
    lowest = [
        min((scores[row][at] for at in at_of.values()), default=0.0)
        for row, at_of in zip(rows, places, strict=True)
    ]

    def read(table: Weights, otherwise: Sequence[float]) -> Tensor:
        told = [
            [table[row][at_of[item]] if item in at_of else missing for item in listed]
            for row, at_of, listed, missing in zip(rows, places, items, otherwise, strict=True)
        ]
        return torch.tensor(told, dtype=torch.float32)

    nothing = [math.nan] * len(rows)
    told = {name: read(table, nothing) for name, table in columns.items()}
    return Candidates.of(torch.tensor(items, dtype=torch.int64), read(scores, lowest), told)


def plain_resampled(per_user: NDArray[np.int64], seed: int, draws: int) -> Floats:
    """Sums over users [draws, M], one draw of users after the other."""
    rng, count = np.random.default_rng([seed, 2]), len(per_user)
    return np.array([per_user[rng.integers(0, count, count)].sum(0) for _ in range(draws)], np.float64)


def plain_decompose(trace: StageTrace) -> Losses:
    """Losses by stage and user, one pair after the other."""
    stages = range(len(trace.names))
    tally: dict[int, tuple[list[int], list[int], list[int]]] = {}
    for user, alive in zip(trace.user.tolist(), trace.alive.tolist(), strict=True):
        wanted, lost, rescued = tally.setdefault(user, ([0], [0 for _ in stages], [0 for _ in stages]))
        wanted[0] += 1
        before = True
        for stage in stages:
            lost[stage] += before and not alive[stage]
            rescued[stage] += alive[stage] and not before
            before = alive[stage]
    users = sorted(tally)
    positives_per_request, losts, backs = (
        np.array([tally[user][part] for user in users]) for part in range(3)
    )
    return Losses(trace.names, np.array(users), positives_per_request[:, 0], losts, backs)


def plain_calibrated(calibration: Calibration, scores: Tensor) -> Tensor:
    """Probabilities of finite scores, one after the other."""
    told = [_chance(calibration, score) for score in scores.flatten().tolist()]
    return torch.tensor(told, dtype=torch.float32).view(scores.shape)


def _chance(calibration: Calibration, score: float) -> float:
    line: list[float] = calibration.line.tolist()
    mean, spread, slope, shift = line
    z = (score - mean) / spread
    if len(calibration.knots):
        curve = float(np.interp(z, calibration.knots.numpy(), calibration.heights.numpy()))
    else:
        curve = 1 / (1 + math.exp(-(slope * z + shift)))
    return (1 - TIE_BREAK) * curve + TIE_BREAK * (0.5 + 0.5 * z / (1 + abs(z)))
