"""More branches: figure 5 of the DTR paper and figure 1 of its companion, with the control that both leave out.

At the same beam, a tree with more branches scores more of its leaves. So every tree is searched three times: with the
usual beam, with the beam that scores as many nodes as with two branches, and with all leaves scored. Trees start from
a random order, all levels are trained, and the total number of negatives over all levels stays that of two branches.
Training is short, 600 steps of 250 examples, because every curve needs fifteen trainings; figure 1 has no updates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    Drawn,
    curve_rows,
    figure,
    name_of,
)
from shortlist.lab.experiments.trees.trial import DEPTH, Settings, Trial, some_users, tree_facts
from shortlist.lab.experiments.trends import gain, rises
from shortlist.lab.result import Claim, Row, row
from shortlist.train.tree.validation import answers

BRANCHES = (2, 4, 8, 16, 32)
NEGATIVES = 70  # on every level of a binary tree
ARMS = ("equal beam", "equal nodes", "all leaves")
COUNTS = ("beam", "nodes scored", "leaves scored")
CONTROL = "two_stage.md, E1"
UPDATED: Settings = {"rounds": 2, "steps": 300, "eval_every": 300}
FIXED: Settings = {"rounds": 1, "steps": 600, "eval_every": 300, "update": "none", "history": "item"}


@figure("dtr-fig5", "branches")
def dtr_fig5(trials: Sequence[Trial]) -> Drawn:
    """The variants of DTR, with updates of the tree."""
    source = "DTR paper, figure 5"
    curves, rows = branch_curves(trials, {method: (method, UPDATED) for method in VARIANTS}, "f1@20")
    dataset = trials[0].data_setup.name
    claims = _rising(curves, source, dataset, "f1@20")
    gains = {method: gain(curves[method, ARMS[0]]) for method in VARIANTS}
    claims += [
        pooled(f"dtr-u gains more than {method} on {dataset}", source, gains["dtr-u"], gains[method], True)
        for method in VARIANTS[1:]
    ]
    return rows, claims


@figure("bounds-fig1", "branches")
def bounds_fig1(trials: Sequence[Trial]) -> Drawn:
    """Three scorers on a random tree without updates, beam 100."""
    source = "companion paper, figure 1"
    beam: Settings = {} if trials[0].data_setup.quick else {"beam": 100}
    scorers = {kind: ("dtr-u", {**FIXED, **beam, "scorer": kind}) for kind in ("linear", "mlp", "attention")}
    curves, rows = branch_curves(trials, scorers, "recall@20")
    claims = _rising(curves, source, trials[0].data_setup.name, "recall@20")
    return rows, claims


def _rising(curves: Mapping[tuple[str, str], Curve], source: str, dataset: str, metric: str) -> list[Claim]:
    """The paper's claim for the usual beam, the same for the other searches as a control, and the loss to the beam."""
    lost = [
        pooled(
            f"{system} loses something to the beam with {min(curve)} branches on {dataset}",
            CONTROL,
            curves[system, ARMS[2]][min(curve)],
            curve[min(curve)],
            True,
            metric,
        )
        for (system, arm), curve in curves.items()
        if arm == ARMS[0]
    ]
    return lost + [
        rises(
            f"{system} rises with branches at {arm} on {dataset}",
            source if arm == ARMS[0] else CONTROL,
            curve,
            metric,
        )
        for (system, arm), curve in curves.items()
    ]


@dataclass(frozen=True, eq=False)
class _Searched:
    """One tree, searched in every way."""

    scores: Sequence[Scores]  # by arm
    counts: Mapping[str, Sequence[float]]  # per user, by arm: beam, nodes scored, leaves scored


def branch_curves(
    trials: Sequence[Trial], systems: Mapping[str, tuple[str, Settings]], metric: str
) -> tuple[dict[tuple[str, str], Curve], list[Row]]:
    """Curves over branches of (system, search), and their rows with what each search scored.

    Rows of `metric` come first: they are drawn.
    """
    data_setup = trials[0].data_setup
    values = (2, 8) if data_setup.quick else BRANCHES
    curves: dict[tuple[str, str], Curve] = {}
    counts: list[Row] = []
    for system, (method, overrides) in systems.items():
        found = {branch: [_searched(one, method, branch, overrides) for one in trials] for branch in values}
        for at, arm in enumerate(ARMS):
            curves[system, arm] = {
                branch: [{"": one.scores[at]} for one in runs] for branch, runs in found.items()
            }
            counts += [
                row(
                    f"{system}, {arm} on {data_setup.name}",
                    count,
                    [one.counts[count][at] for one in runs],
                    x=branch,
                )
                for count in COUNTS
                for branch, runs in found.items()
            ]
    metrics = (metric, *(one for one in CURVE_METRICS if one != metric))
    named = {f"{system}, {arm}": curve for (system, arm), curve in curves.items()}
    return curves, curve_rows(named, data_setup.name, metrics, [""]) + counts


def _searched(trial: Trial, method: str, branch: int, overrides: Settings) -> _Searched:
    """The scores of one tree for every search, and what each scored per user."""
    settings = {**overrides, "branch": branch, "order": "random", "levels": "all"}
    settings |= {**TINY, "batch_size": trial.data_setup.sizes["batch_size"]} if trial.data_setup.quick else {}
    binary = TreeShape(len(trial.data_setup.dataset.items), 2)
    total = total_negatives(binary, trial.data_setup.negatives(NEGATIVES))
    settings["negatives"] = even_negatives(TreeShape(binary.n, branch), total)
    plan = trial.plan(method, **settings)

    def answer() -> tuple[Tensor, dict[str, Any]]:
        index, training = trial.train(plan)
        beams = [plan.beam, equal_beam(index.tree.shape, nodes_scored(binary, plan.beam))]
        test = trial.split.test
        items = [answers(index, test, DEPTH, beam) for beam in beams] + [
            answers(index, test, DEPTH, full=True)
        ]
        scored = [_scored_per_user(index, trial, beam) for beam in beams] + [(binary.n, binary.n)]
        nodes, leaves = ([float(one) for one in side] for side in zip(*scored, strict=True))
        values = ([*map(float, beams), float(binary.n)], nodes, leaves)
        counts = dict(zip(COUNTS, values, strict=True))
        return torch.stack(items).to(torch.int32), {**tree_facts(plan, training), **counts}

    name = f"{trial.data_setup.name}/{name_of(trial, method, settings)}, three ways/{trial.seed}"
    items, facts = trial.cache.get(name, answer, asdict(plan))
    scores = [score_slates(one.to(torch.int64), trial.relevant, (20, 40)) for one in items]
    return _Searched(scores, {count: facts[count] for count in COUNTS})


def _scored_per_user(index: TreeIndex, trial: Trial, beam: int) -> tuple[float, float]:
    """The mean number of nodes and of leaves that a search scores for a user."""
    some = some_users(trial.split.test, 200, trial.seed)
    history = some.query(width=index.scorer.config.max_history).history.to(index.tree.device)
    scored = [one.n_scored.double().mean() for one in search(index, history, 20, beam, trace=True).beams]
    return float(torch.stack(scored).sum()), float(scored[-1])


def total_negatives(shape: TreeShape, negatives: int) -> int:
    """Negatives of all levels together; a level has at most its size less one."""
    return sum(min(negatives, size - 1) for size in shape.sizes[1:])


def even_negatives(shape: TreeShape, total: int) -> int:
    """The number of negatives per level with at least this total, or all there are."""
    return next(
        (one for one in range(1, shape.n) if total_negatives(shape, one) >= total), max(shape.n - 1, 1)
    )


def nodes_scored(shape: TreeShape, beam: int) -> int:
    """Nodes that a search with this beam scores, up to a few where the last parent has fewer children."""
    first = shape.start(beam)
    return shape.sizes[first] + sum(min(beam * shape.branch, size) for size in shape.sizes[first + 1 :])


def equal_beam(shape: TreeShape, nodes: int) -> int:
    """The widest beam that scores at most this number of nodes, at least 1."""
    return max((beam for beam in range(1, shape.n) if nodes_scored(shape, beam) <= nodes), default=1)
