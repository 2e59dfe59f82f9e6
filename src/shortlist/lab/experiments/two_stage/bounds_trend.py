"""Whether bounds follow measurements: their terms against the gap between test and training users.

Linear trees are trained under the assumptions of the theorems, over branches x shares of the training users, widths and
limits on the norm of node vectors; attention, which no theorem covers, over branches. The same loss is measured on
training and on test users: the ramp loss of theorem 4.4, the softmax over all leaves, over all levels, and whether the
target is among the 20 retrieved items with the usual beam, with a beam that scores as many nodes as with two branches,
and with all leaves scored. Only a rank correlation could show that a bound explains a gap.

Node vectors of a linear tree are free, so the problem of the leaves is the same for every number of branches: its gap
cannot depend on them, whatever a bound predicts.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from shortlist.artifact.as_json import as_json
from shortlist.lab.experiments.sweeps import experiment_name, trials_of
from shortlist.lab.experiments.trees.branches import BRANCHES
from shortlist.lab.experiments.trends import over_seeds
from shortlist.lab.experiments.two_stage.trend_runs import (
    ARMS,
    LOSSES,
    RADEMACHER,
    SHARES,
    Run,
    TreeSetting,
    run_of,
    settings_of,
)
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.lab.theory.bounds_compare import BoundTable, compare_bounds
from shortlist.lab.theory.bounds_measured import train_test_gap
from shortlist.metrics.estimate import Estimate, share
from shortlist.progress import Progress, silent

BOUNDS = ("paper", "pair_exact", "rigorous")
SOURCE, EFFORT = "two_stage.md, E7", "two_stage.md, E1"
FEWEST = 3  # configurations, for a rank correlation
HIGH = 0.7  # a rank correlation that counts
RELEVANT_CHANGE = 0.01  # of a gap: a smaller change counts as none
Runs = Mapping[TreeSetting, Sequence[Run]]  # a run per seed
Correlations = Mapping[tuple[str, str, str], Sequence[float]]  # (group, term, loss) -> a value per seed


def bounds_trend(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] = (),
) -> Result:
    """All configurations for every seed; `only` some by name, where a cache is filled in several processes."""
    began, name = start(), experiment_name("bounds-trend", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    data_setup, cache = trials[0].data_setup, trials[0].cache
    settings = [one for one in settings_of(data_setup.quick) if not only or one.name in only]
    runs: dict[TreeSetting, list[Run]] = {one: [] for one in settings}
    for trial in trials:
        for done, one in enumerate(settings, start=1):
            runs[one].append(run_of(trial, one))
            progress(name, done, len(settings))
    rows = gap_rows(runs, data_setup.name) + fact_rows(runs, data_setup.name)
    if only:
        return result(
            name,
            profile,
            seeds,
            began,
            rows,
            [],
            x="branches",
            settings=cache.settings,
            training=cache.training,
        )
    found = correlations(runs)
    rows += [
        row(f"{term} over {group} on {data_setup.name}", f"rank correlation with the gap of {loss}", values)
        for (group, term, loss), values in found.items()
    ]
    table = _bound_table(runs)
    return result(
        name,
        profile,
        seeds,
        began,
        rows,
        _claims(runs, found, data_setup.name),
        x="branches",
        note=table.headline,
        bounds=as_json(table),
        settings=cache.settings,
        training=cache.training,
    )


def _bound_table(runs: Runs) -> BoundTable:
    return compare_bounds(
        {one.name: each[0].inputs for one, each in runs.items()},
        TreeSetting(branch=2).name,
        {one.name: each[0].measured() for one, each in runs.items()},
        force=True,
    )


def _claims(runs: Runs, found: Correlations, dataset: str) -> list[Claim]:
    return [
        _vacuous(runs, dataset),
        *_order_claims(found, grouped(runs), dataset),
        *_branch_claims(runs, dataset),
    ]


def gap_rows(runs: Runs, dataset: str) -> list[Row]:
    """The gap of every loss for every configuration; those that differ only in branches are drawn over branches."""
    return [
        row(
            f"{_curve(one)} on {dataset}", f"gap of {loss}", [run.gap(loss) for run in each], x=_position(one)
        )
        for loss in LOSSES
        for one, each in runs.items()
    ]


def _position(one: TreeSetting) -> int | None:
    """The position of a configuration on the axis of branches; None where it differs in something else."""
    return one.branch if one == TreeSetting(one.scorer, one.branch, share=one.share) else None


def _curve(one: TreeSetting) -> str:
    """The name of a configuration without its branches."""
    return one.name.replace(f", {one.branch} branches", "")


def fact_rows(runs: Runs, dataset: str) -> list[Row]:
    """Facts about each tree, and the cost of searching it."""
    rows = []
    for one, each in runs.items():
        facts: dict[str, list[float]] = {
            "instances": [run.inputs.n_train for run in each],
            "longest node vector": [run.inputs.b0 for run in each],
            **{
                f"nodes scored, {arm}": [run.facts["nodes"][at] for run in each]
                for at, arm in enumerate(ARMS)
            },
            **{f"test error, {arm}": [float(run.side(True, arm).mean()) for run in each] for arm in ARMS},
            **{f"ratio of {term}": _ratios(runs, each, term) for term in BOUNDS},
        }
        if all(RADEMACHER in run.facts for run in each):
            facts["a node fits random labels"] = [run.facts[RADEMACHER] for run in each]
        rows += [
            row(f"{_curve(one)} on {dataset}", fact, [float(x) for x in values], x=_position(one))
            for fact, values in facts.items()
            if values
        ]
    return rows


def _ratios(runs: Runs, each: Sequence[Run], term: str) -> list[float]:
    """A term over that of the same scorer with two branches; empty where that is not among the runs."""
    reference = runs.get(TreeSetting(each[0].setting.scorer, 2))
    if reference is None:
        return []
    return [run.terms[term] / other.terms[term] for run, other in zip(each, reference, strict=True)]


def grouped(runs: Runs) -> dict[str, list[list[TreeSetting]]]:
    """Configurations that differ in one setting only, by that setting; a correlation is the mean over such groups."""
    linear = [one for one in runs if one.scorer == "linear"]
    usual = [one for one in linear if one.width == 24 and one.limit is None]
    middle = [one for one in linear if one.share == 1 and one.branch == TreeSetting().branch]
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

    There is none where a term or a gap is constant within a group; a group without any is left out.
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
    runs: Runs, parts: Sequence[Sequence[TreeSetting]], term: str, loss: str, seed: int
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
    """Spearman's; values equal to six digits are ties; None below three pairs, or where a side is constant."""
    ranks = [rankdata([float(f"{value:.6g}") for value in side]) for side in (a, b)]
    if len(a) < FEWEST or any(np.ptp(one) == 0 for one in ranks):
        return None
    return float(np.corrcoef(*ranks)[0, 1])


def _vacuous(runs: Runs, dataset: str) -> Claim:
    """No bound on a linear tree is stronger than what is known without data."""
    ratios = [
        run.terms[term] / (2 * run.inputs.range)
        for one, each in runs.items()
        if one.scorer == "linear"
        for run in each
        for term in BOUNDS
    ]
    note = "the smallest bound over what is known without any data: 1 or more says nothing"
    name = f"all bounds are vacuous on {dataset}"
    return claim(name, "two_stage.md, 8.3", min(ratios) >= 1, min(ratios), note)


def _order_claims(
    found: Correlations, groups: Mapping[str, Sequence[Sequence[TreeSetting]]], dataset: str
) -> list[Claim]:
    """E7: bounds order gaps by instances, not by branches; over all configurations, no better than instances alone."""
    claims = []
    for term in ("paper", "rigorous"):
        for loss in ("ramp", "all leaves"):
            values = found["instances", term, loss]
            note = f"rank correlation with the gap of {loss}; must be above {HIGH}"
            name = f"{term} orders gaps of {loss} over instances on {dataset}"
            claims.append(over_seeds(name, SOURCE, values, note, HIGH))
            pairs = zip(found["all", term, loss], found["all", "instances alone", loss], strict=True)
            note = f"rank correlation with the gap of {loss}, less that of 1 / sqrt(m)"
            name = f"{term} orders gaps of {loss} better than instances alone on {dataset}"
            claims.append(over_seeds(name, SOURCE, [one - other for one, other in pairs], note))
        for group in ("branches", "attention, branches"):
            if len(groups[group][0]) >= FEWEST:
                claims += [_no_order(found, group, term, loss, dataset) for loss in ("ramp", *ARMS)]
    return claims


def _no_order(found: Correlations, group: str, term: str, loss: str, dataset: str) -> Claim:
    """A bound does not order gaps over branches: for that, it would have to do so clearly for every seed."""
    name = f"{term} does not order gaps of {loss} over {group} on {dataset}"
    values = found.get((group, term, loss))
    if values is None:
        note = f"no rank correlation: the gap of {loss} is the same for all branches"
        return claim(name, SOURCE, True, 0.0, note)
    note = f"rank correlation with the gap of {loss}; above {HIGH} on every seed would refute it"
    note += "; here it is the wrong way round on every seed" if max(values) < -HIGH else ""
    ends = [min(values), max(values)]
    return claim(name, SOURCE, min(values) <= HIGH, statistics.fmean(values), note, ends)


def _branch_claims(runs: Runs, dataset: str) -> list[Claim]:
    """E1: the effect of more branches on gaps, and on errors for each search.

    The loss of all levels is left out: with more branches there are fewer levels to sum, so it is not the same loss.
    """
    claims = []
    for scorer in ("linear", "attention"):
        curve = {one.branch: each for one, each in runs.items() if one == TreeSetting(scorer, one.branch)}
        few, many = curve[min(curve)], curve[max(curve)]
        for loss in ("ramp", "leaves", *ARMS):
            gap, change = statistics.fmean(run.gap(loss) for run in few), _change_of_gap(few, many, loss)
            falls = [run.gap(loss) < other.gap(loss) for run, other in zip(many, few, strict=True)]
            note = (
                f"gap with {max(curve)} branches less that with {min(curve)}, {gap:.4f}; must fall by more than "
                f"{RELEVANT_CHANGE:.0%} of it; falls on {sum(falls)} of {len(falls)} seeds{_pooled_users(few)}"
            )
            holds = change.high is not None and change.high < -RELEVANT_CHANGE * abs(gap)
            name = f"{scorer}: the gap of {loss} falls with branches on {dataset}"
            claims.append(_estimate_claim(name, EFFORT, holds, change, note))
        effort = _search_effort(few, many)
        note = (
            "what more branches gain with the usual beam beyond what they gain with all leaves scored, in errors"
            f"{_pooled_users(few)}"
        )
        name = f"{scorer}: what more branches gain is search on {dataset}"
        claims.append(_estimate_claim(name, EFFORT, effort.above, effort, note))
    return claims


def _pooled_users(runs: Sequence[Run]) -> str:
    """The assumption of an interval over the users of several seeds."""
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
        sides.append(_joined([run.users_of(test).double() + 1e9 * at for at, run in enumerate(few)]))
    train, train_users, test_losses, test_users = sides
    return train_test_gap(train, train_users, test_losses, test_users)


def _search_effort(few: Sequence[Run], many: Sequence[Run]) -> Estimate:
    """The gain of the usual beam on test users minus the gain of all leaves, over the users of all seeds."""
    gains = {
        arm: [a.side(True, arm) - b.side(True, arm) for a, b in zip(few, many, strict=True)] for arm in ARMS
    }
    difference = _joined(gains[ARMS[0]]) - _joined(gains[ARMS[2]])
    users = _joined([run.users_of(True).double() + 1e9 * at for at, run in enumerate(few)])
    _, at = np.unique(users.numpy(), return_inverse=True)
    return share(np.bincount(at, difference.numpy()), np.bincount(at).astype(np.float64))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts))


def _estimate_claim(name: str, source: str, holds: bool, found: Estimate, note: str) -> Claim:
    """A claim about an estimate, which may have no interval."""
    mean = 0.0 if found.mean is None else found.mean
    if found.low is None or found.high is None:
        return claim(name, source, holds, mean, f"{note}; too few users for an interval")
    return claim(name, source, holds, mean, note, [found.low, found.high])
