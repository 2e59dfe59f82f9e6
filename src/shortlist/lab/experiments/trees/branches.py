"""More branches: figure 5 of the DTR paper and figure 1 of its companion, with the control both leave out.

At the same beam a tree with more branches looks at more of its leaves. So every tree answers three times: with the
usual beam, with the beam that scores as many nodes as two branches do, and with all leaves scored. Trees begin by
chance, all levels are taught, and the negatives of all levels together stay those of two branches.
Lessons are short, 600 steps of 250 examples, for every curve is one of fifteen trainings; figure 1 has no updates.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.evaluate.scores import Scores, score_slates
from shortlist.index.tree import TreeIndex, TreeShape, search
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import (
    CURVE_METRICS,
    TINY,
    VARIANTS,
    Curve,
    curve_rows,
    experiment_name,
    name_of,
    trials_of,
)
from shortlist.lab.experiments.trees.trial import DEPTH, Settings, Trial, some_users
from shortlist.lab.experiments.trends import gain, rises
from shortlist.lab.result import result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.tree.validation import answers

BRANCHES = (2, 4, 8, 16, 32)
NEGATIVES = 70  # on every level of two branches
ARMS = ("equal beam", "equal nodes", "all leaves")
CONTROL = "two_stage.md, E1"
UPDATED: Settings = {"rounds": 2, "steps": 300, "eval_every": 300}
STAYING: Settings = {"rounds": 1, "steps": 600, "eval_every": 300, "update": "none", "history": "item"}


def dtr_fig5(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """The variants of DTR, with updates of the tree."""
    began, name, source = start(), experiment_name("dtr-fig5", where), "DTR paper, figure 5"
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    curves, rows = branched(trials, {who: (who, UPDATED) for who in VARIANTS}, "f1@20")
    place = trials[0].ground.name
    claims = _rising(curves, source, place, "f1@20")
    most, usual = gain(curves["dtr-u", ARMS[0]]), {who: gain(curves[who, ARMS[0]]) for who in VARIANTS}
    claims += [
        pooled(f"dtr-u gains more than {who} on {place}", source, most, usual[who], True)
        for who in VARIANTS[1:]
    ]
    return result(name, profile, seeds, began, rows, claims) | {"x": "branches"}


def bounds_fig1(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """Three scorers on a tree that stays as chance made it, beam 100."""
    began, name, source = start(), experiment_name("bounds-fig1", where), "companion paper, figure 1"
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    beam: Settings = {} if trials[0].ground.quick else {"beam": 100}
    scorers = {
        kind: ("dtr-u", {**STAYING, **beam, "scorer": kind}) for kind in ("linear", "mlp", "attention")
    }
    curves, rows = branched(trials, scorers, "recall@20")
    claims = _rising(curves, source, trials[0].ground.name, "recall@20")
    return result(name, profile, seeds, began, rows, claims) | {"x": "branches"}


def _rising(
    curves: Mapping[tuple[str, str], Curve], source: str, place: str, metric: str
) -> list[dict[str, Any]]:
    """The claim of the paper for the first way to search, the same for the others as a control; what a beam loses."""
    lost = [
        pooled(
            f"{who} loses something to the beam with {min(curve)} branches on {place}",
            CONTROL,
            curves[who, ARMS[2]][min(curve)],
            curve[min(curve)],
            True,
            metric,
        )
        for (who, arm), curve in curves.items()
        if arm == ARMS[0]
    ]
    return lost + [
        rises(
            f"{who} rises with branches at {arm} on {place}",
            source if arm == ARMS[0] else CONTROL,
            curve,
            metric,
        )
        for (who, arm), curve in curves.items()
    ]


def branched(
    trials: Sequence[Trial], systems: Mapping[str, tuple[str, Settings]], metric: str
) -> tuple[dict[tuple[str, str], Curve], list[dict[str, Any]]]:
    """Curves over branches of (system, way to search), and their rows with what each search looked at.

    Rows of `metric` come first: they are drawn.
    """
    ground = trials[0].ground
    values = (2, 8) if ground.quick else BRANCHES
    curves: dict[tuple[str, str], Curve] = {}
    looked: list[dict[str, Any]] = []
    for who, (method, given) in systems.items():
        found = {branch: [_answered(one, method, branch, given) for one in trials] for branch in values}
        for at, arm in enumerate(ARMS):
            curves[who, arm] = {
                branch: [{"": scores[at]} for scores, _ in runs] for branch, runs in found.items()
            }
            looked += [
                row(f"{who}, {arm} on {ground.name}", what, [told[what][at] for _, told in runs])
                | {"x": branch}
                for what in ("beam", "nodes scored", "leaves scored")
                for branch, runs in found.items()
            ]
    metrics = (metric, *(one for one in CURVE_METRICS if one != metric))
    named = {f"{who}, {arm}": curve for (who, arm), curve in curves.items()}
    return curves, curve_rows(named, ground.name, metrics, [""]) + looked


def _answered(
    trial: Trial, method: str, branch: int, given: Settings
) -> tuple[list[Scores], Mapping[str, list[float]]]:
    """The scores of one tree for every way to search, and what each looked at per user."""
    asked = {**given, "branch": branch, "order": "random", "levels": "all"}
    asked |= {**TINY, "batch_size": trial.ground.sizes["batch_size"]} if trial.ground.quick else {}
    two = TreeShape(len(trial.ground.dataset.items), 2)
    total = drawn(two, trial.ground.few(NEGATIVES))
    asked["negatives"] = even_negatives(TreeShape(two.n, branch), total)

    def answer() -> tuple[Tensor, dict[str, Any]]:
        plan = trial.plan(method, **asked)
        index, _ = trial.train(plan)
        beams = [plan.beam, equal_beam(index.tree.shape, nodes_scored(two, plan.beam))]
        ask = trial.split.test
        items = [answers(index, ask, DEPTH, beam) for beam in beams] + [answers(index, ask, DEPTH, full=True)]
        looked = [_looked_at(index, trial, beam) for beam in beams] + [(two.n, two.n)]
        nodes, leaves = ([float(one) for one in side] for side in zip(*looked, strict=True))
        told = {"beam": [*map(float, beams), float(two.n)], "nodes scored": nodes, "leaves scored": leaves}
        return torch.stack(items).to(torch.int32), told

    name = f"{trial.ground.name}/{name_of(trial, method, asked)}, three ways/{trial.seed}"
    items, told = trial.cache.get(name, answer)
    return [score_slates(one.to(torch.int64), trial.truth, (20, 40)) for one in items], told


def _looked_at(index: TreeIndex, trial: Trial, beam: int) -> tuple[float, float]:
    """Nodes and leaves that a search scores for a user, on average."""
    some = some_users(trial.split.test, 200, trial.seed)
    history = some.query(width=index.scorer.config.max_history).history.to(index.tree.device)
    scored = [one.n_scored.double().mean() for one in search(index, history, 20, beam, trace=True).beams]
    return float(torch.stack(scored).sum()), float(scored[-1])


def drawn(shape: TreeShape, negatives: int) -> int:
    """Negatives of all levels together, where no level gives more than it has."""
    return sum(min(negatives, size - 1) for size in shape.sizes[1:])


def even_negatives(shape: TreeShape, total: int) -> int:
    """As many on every level as make the total, or all there are."""
    return next((one for one in range(1, shape.n) if drawn(shape, one) >= total), max(shape.n - 1, 1))


def nodes_scored(shape: TreeShape, beam: int) -> int:
    """Nodes that a search with this beam looks at, up to a few where the last family is not whole."""
    first = shape.start(beam)
    return shape.sizes[first] + sum(min(beam * shape.branch, size) for size in shape.sizes[first + 1 :])


def equal_beam(shape: TreeShape, nodes: int) -> int:
    """The widest beam that looks at no more than so many nodes, at least 1."""
    return max((beam for beam in range(1, shape.n) if nodes_scored(shape, beam) <= nodes), default=1)
