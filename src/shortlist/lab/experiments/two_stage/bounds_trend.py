"""Whether bounds go with what is measured: their terms against the gap between test and training users.

Linear trees are taught as the theorems have it (see `theory`), over branches x shares of the training users, widths and
limits on the length of node vectors; attention, which no theorem covers, over branches. The same loss is measured on
training and on test users: the ramp loss of theorem 4.4, the softmax over all leaves, over all levels, and whether the
item is among the 20 retrieved with the usual beam, with a beam that scores as many nodes as two branches do, and with
all leaves scored. A rank correlation is the only thing that could say that a bound explains a gap.

Node vectors of a linear tree are free, so the problem of the leaves is the same for every number of branches: its gap
cannot depend on them, whatever a bound says.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from shortlist.lab.experiments.sweeps import experiment_name, trials_of
from shortlist.lab.experiments.trees.branches import BRANCHES
from shortlist.lab.experiments.trends import over_seeds
from shortlist.lab.experiments.two_stage.trend_runs import (
    ARMS,
    LOSSES,
    SHARES,
    Run,
    Setting,
    run_of,
    settings_of,
)
from shortlist.lab.result import claim, result, row, start
from shortlist.lab.theory.bounds_compare import compare_bounds
from shortlist.lab.theory.bounds_measured import train_test_gap
from shortlist.metrics.estimate import Estimate, share
from shortlist.progress import Progress, silent

BOUNDS = ("paper", "pair_exact", "rigorous")
GROUPS = ("all", "branches", "instances", "width", "limit", "attention, branches")
SOURCE, EFFORT = "two_stage.md, E7", "two_stage.md, E1"
FEWEST = 3  # configurations, for an order to mean anything
HIGH = 0.7  # a rank correlation that says something
MATTERS = 0.01  # of a gap: a smaller change is none
Runs = Mapping[Setting, Sequence[Run]]  # a run for every seed


def bounds_trend(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """All configurations for every seed; `only` some of them by name, where answers are made for others to take."""
    began, name = start(), experiment_name("bounds-trend", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    ground = trials[0].ground
    wanted = [one for one in settings_of(ground.quick) if not only or one.name in only]
    runs: dict[Setting, list[Run]] = {one: [] for one in wanted}
    for trial in trials:
        for done, one in enumerate(wanted, start=1):
            runs[one].append(run_of(trial, one))
            progress(name, done, len(wanted))
    rows = gap_rows(runs, ground.name) + fact_rows(runs, ground.name)
    if only:
        return result(name, profile, seeds, began, rows, []) | {"x": "branches"}
    found = correlations(runs)
    rows += [
        row(f"{term} over {group} on {ground.name}", f"rank correlation with the gap of {loss}", values)
        for (group, term, loss), values in found.items()
    ]
    claims = [
        _vacuous(runs, ground.name),
        *_explained(found, grouped(runs), ground.name),
        *_told_by_branches(runs, ground.name),
    ]
    table = compare_bounds(
        {one.name: each[0].inputs for one, each in runs.items()},
        Setting(branch=2).name,
        {one.name: each[0].beside() for one, each in runs.items()},
        force=True,
    )
    told = result(name, profile, seeds, began, rows, claims)
    return told | {"x": "branches", "note": table.headline, "bounds": table.as_dict()}


def gap_rows(runs: Runs, place: str) -> list[dict[str, Any]]:
    """The gap of every loss for every configuration; those that differ in branches alone are drawn over them."""
    return [
        row(f"{_curve(one)} on {place}", f"gap of {loss}", [run.gap(loss) for run in each]) | _drawn(one)
        for loss in LOSSES
        for one, each in runs.items()
    ]


def _drawn(one: Setting) -> dict[str, int]:
    """The place of a configuration on the axis of branches; those that differ in something else have none."""
    return {"x": one.branch} if one == Setting(one.scorer, one.branch, share=one.share) else {}


def _curve(one: Setting) -> str:
    """The name of a configuration without its branches."""
    return one.name.replace(f", {one.branch} branches", "")


def fact_rows(runs: Runs, place: str) -> list[dict[str, Any]]:
    """What each tree was, and what it costs to search."""
    rows = []
    for one, each in runs.items():
        who = f"{_curve(one)} on {place}"
        told: dict[str, list[float]] = {
            "instances": [run.inputs.n_train for run in each],
            "longest node vector": [run.inputs.b0 for run in each],
            **{
                f"nodes scored, {arm}": [run.facts["nodes"][at] for run in each]
                for at, arm in enumerate(ARMS)
            },
            **{f"test error, {arm}": [float(run.side(True, arm).mean()) for run in each] for arm in ARMS},
            **{f"ratio of {term}": _ratios(runs, each, term) for term in BOUNDS},
        }
        if all("by_chance" in run.facts for run in each):
            told["a node fits by chance"] = [run.facts["by_chance"] for run in each]
        rows += [
            row(who, what, [float(x) for x in values]) | _drawn(one)
            for what, values in told.items()
            if values
        ]
    return rows


def _ratios(runs: Runs, each: Sequence[Run], term: str) -> list[float]:
    """A term against that of the same scorer with two branches; none where that is not among the runs."""
    reference = runs.get(Setting(each[0].setting.scorer, 2))
    if reference is None:
        return []
    return [run.terms[term] / other.terms[term] for run, other in zip(each, reference, strict=True)]


def grouped(runs: Runs) -> dict[str, list[list[Setting]]]:
    """Configurations that differ in one thing alone, by what that is; a correlation is the mean over such groups."""
    linear = [one for one in runs if one.scorer == "linear"]
    usual = [one for one in linear if one.width == 24 and one.limit is None]
    middle = [one for one in linear if one.share == 1 and one.branch == Setting().branch]
    return {
        "all": [linear],
        "branches": [[one for one in usual if one.share == part] for part in SHARES],
        "instances": [[one for one in usual if one.branch == branch] for branch in BRANCHES],
        "width": [[one for one in middle if one.limit is None]],
        "limit": [[one for one in middle if one.width == 24]],
        "attention, branches": [[one for one in runs if one.scorer == "attention"]],
    }


def correlations(runs: Runs) -> dict[tuple[str, str, str], list[float]]:
    """The rank correlation of every term with the gap of every loss in every group, for each seed.

    Where a term or a gap is the same for all of a group there is none; a group without any is left out.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    seeds = len(next(iter(runs.values())))
    for group, parts in grouped(runs).items():
        terms = set.intersection(*(set(runs[one][0].terms) for part in parts for one in part))
        for term in sorted(terms):
            for loss in LOSSES:
                values = [_mean_correlation(runs, parts, term, loss, seed) for seed in range(seeds)]
                if all(value is not None for value in values):
                    found[group, term, loss] = [float(value) for value in values if value is not None]
    return found


def _mean_correlation(
    runs: Runs, parts: Sequence[Sequence[Setting]], term: str, loss: str, seed: int
) -> float | None:
    each = [
        rank_correlation(
            [runs[one][seed].terms[term] for one in part], [runs[one][seed].gap(loss) for one in part]
        )
        for part in parts
    ]
    known = [one for one in each if one is not None]
    return statistics.fmean(known) if known else None


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's, equal to six digits counting as ties; None below three pairs, or where a side does not change."""
    ranks = [rankdata([float(f"{value:.6g}") for value in side]) for side in (a, b)]
    if len(a) < FEWEST or any(np.ptp(one) == 0 for one in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _vacuous(runs: Runs, place: str) -> dict[str, Any]:
    """No bound on a linear tree says more than what is known without data."""
    ratios = [
        run.terms[term] / (2 * run.inputs.range)
        for one, each in runs.items()
        if one.scorer == "linear"
        for run in each
        for term in BOUNDS
    ]
    note = "the smallest bound over what is known without any data: 1 or more says nothing"
    return claim(
        f"all bounds are vacuous on {place}", "two_stage.md, 8.3", min(ratios) >= 1, min(ratios), note
    )


def _explained(
    found: Mapping[tuple[str, str, str], Sequence[float]],
    groups: Mapping[str, Sequence[Sequence[Setting]]],
    place: str,
) -> list[dict[str, Any]]:
    """E7: bounds order gaps by instances, not by branches; over everything, no better than instances alone do."""
    claims = []
    for term in ("paper", "rigorous"):
        for loss in ("ramp", "all leaves"):
            values = found["instances", term, loss]
            note = f"rank correlation with the gap of {loss}; must be above {HIGH}"
            name = f"{term} orders gaps of {loss} over instances on {place}"
            claims.append(over_seeds(name, SOURCE, values, note, HIGH))
            pairs = zip(found["all", term, loss], found["all", "instances alone", loss], strict=True)
            note = f"rank correlation with the gap of {loss}, less that of 1 / sqrt(m)"
            name = f"{term} orders gaps of {loss} better than instances alone on {place}"
            claims.append(over_seeds(name, SOURCE, [one - other for one, other in pairs], note))
        for group in ("branches", "attention, branches"):
            if len(groups[group][0]) >= FEWEST:
                claims += [_unexplained(found, group, term, loss, place) for loss in ("ramp", *ARMS)]
    return claims


def _unexplained(
    found: Mapping[tuple[str, str, str], Sequence[float]], group: str, term: str, loss: str, place: str
) -> dict[str, Any]:
    """A bound does not order gaps over branches: it would have to do so clearly on every seed."""
    name = f"{term} does not order gaps of {loss} over {group} on {place}"
    values = found.get((group, term, loss))
    if values is None:
        note = f"no rank correlation: the gap of {loss} is the same for all branches"
        return claim(name, SOURCE, True, 0.0, note)
    note = f"rank correlation with the gap of {loss}; above {HIGH} on every seed would refute it"
    note += "; here it is the wrong way round on every seed" if max(values) < -HIGH else ""
    return claim(
        name, SOURCE, min(values) <= HIGH, statistics.fmean(values), note, [min(values), max(values)]
    )


def _told_by_branches(runs: Runs, place: str) -> list[dict[str, Any]]:
    """E1: what more branches do to gaps, and to errors for each way to search.

    The loss of all levels is left out: with more branches there are fewer levels to add up, so it is not the same loss.
    """
    claims = []
    for scorer in ("linear", "attention"):
        curve = {one.branch: each for one, each in runs.items() if one == Setting(scorer, one.branch)}
        few, many = curve[min(curve)], curve[max(curve)]
        for loss in ("ramp", "leaves", *ARMS):
            gap, change = statistics.fmean(run.gap(loss) for run in few), _change_of_gap(few, many, loss)
            falls = [run.gap(loss) < other.gap(loss) for run, other in zip(many, few, strict=True)]
            note = (
                f"gap with {max(curve)} branches less that with {min(curve)}, {gap:.4f}; must fall by more than "
                f"{MATTERS:.0%} of it; falls on {sum(falls)} of {len(falls)} seeds{_taken(few)}"
            )
            holds = change.high is not None and change.high < -MATTERS * abs(gap)
            name = f"{scorer}: the gap of {loss} falls with branches on {place}"
            claims.append(_claimed(name, EFFORT, holds, change, note))
        effort = _search_effort(few, many)
        note = (
            "what more branches gain with the usual beam beyond what they gain with all leaves scored, in errors"
            f"{_taken(few)}"
        )
        name = f"{scorer}: what more branches gain is search on {place}"
        claims.append(_claimed(name, EFFORT, effort.above, effort, note))
    return claims


def _taken(runs: Sequence[Run]) -> str:
    """What an interval over the users of several seeds takes for granted."""
    if len(runs) < 2:
        return ""
    return "; the interval takes users of all seeds together, one who is in several counts in each"


def _change_of_gap(few: Sequence[Run], many: Sequence[Run], loss: str) -> Estimate:
    """The gap of the difference, instance by instance, over the users of all seeds."""
    sides = []
    for test in (False, True):
        sides.append(
            _joined([b.side(test, loss) - a.side(test, loss) for a, b in zip(few, many, strict=True)])
        )
        sides.append(_joined([run.whose(test).double() + 1e9 * at for at, run in enumerate(few)]))
    train, train_users, test_losses, test_users = sides
    return train_test_gap(train, train_users, test_losses, test_users)


def _search_effort(few: Sequence[Run], many: Sequence[Run]) -> Estimate:
    """How much the usual beam gains on test users beyond what all leaves gain, over the users of all seeds."""
    gains = {
        arm: [a.side(True, arm) - b.side(True, arm) for a, b in zip(few, many, strict=True)] for arm in ARMS
    }
    apart = _joined(gains[ARMS[0]]) - _joined(gains[ARMS[2]])
    users = _joined([run.whose(True).double() + 1e9 * at for at, run in enumerate(few)])
    _, at = np.unique(users.numpy(), return_inverse=True)
    return share(np.bincount(at, apart.numpy()), np.bincount(at).astype(np.float64))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts))


def _claimed(name: str, source: str, holds: bool, found: Estimate, note: str) -> dict[str, Any]:
    """A claim on an estimate, which may have no interval."""
    mean = 0.0 if found.mean is None else found.mean
    if found.low is None or found.high is None:
        return claim(name, source, holds, mean, f"{note}; too few users for an interval")
    return claim(name, source, holds, mean, note, [found.low, found.high])
