"""Table 1 of the two-stage bounds paper: a ranker that learns from what is retrieved against one that learns from all.

The paper filters wanted items by a retriever that learned from them, and says nothing of spread. Here instances are
flagged by a retriever that did not see their users, every difference has an interval over users, and the questions
around the table are asked too: other negatives, weights instead of a filter, flags in sample, a random subset as
large, and filters so strict that little is left. Beside K = 40, 80, 120 stand K = 1, the retriever alone, and K = N,
the ranker alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.evaluate import paired
from shortlist.progress import Progress, silent
from shortlist.report.result import claim, result, row, start
from shortlist.reproduce.sweeps import titled, trials_of
from shortlist.reproduce.trees import Trial
from shortlist.reproduce.two_stages import SMALL, Arm, Sizes, TwoStages, settings_of

SOURCE = "two-stage bounds paper, table 1"
SPEC = "two_stage.md"
POINT = 0.01  # a gain the specification expects not to be exceeded


def arms_of(sizes: Sizes) -> dict[str, Arm]:
    """All ways to teach the ranker, the most important first."""
    low, middle, high = sizes.ks
    few, some = strict_of(sizes)
    return {
        "TS": Arm(),
        f"H-TS {middle}": Arm(middle),
        f"H-TS {low}": Arm(low),
        f"H-TS {high}": Arm(high),
        f"H-TS {few}": Arm(few),
        f"as many by chance as {few}": Arm(few, subset=True),
        "TS, candidates": Arm(negatives="candidates"),
        f"H-TS {middle}, candidates": Arm(middle, "candidates"),
        f"H-TS {middle}, in sample": Arm(middle, flags="in-sample"),
        f"H-TS {some}": Arm(some),
        "TS, both": Arm(negatives="both"),
        f"mixed {middle}": Arm(middle, blend=0.5),
        f"weighted {middle}": Arm(middle, soft=True),
        f"as many by chance as {middle}": Arm(middle, subset=True),
        f"H-TS {low // 2}": Arm(low // 2),
    }


def strict_of(sizes: Sizes) -> tuple[int, int]:
    """Two numbers of retrieved items so small that few instances are among them."""
    return max(sizes.middle // 40, 1), max(sizes.middle // 16, 2)


def bounds_table1(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    keep: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] | None = None,
) -> dict[str, Any]:
    """P@1 of two stages for rankers taught in many ways; `only` some of them, to share the work."""
    began, name = start(), titled("bounds-table1", where)
    trials = trials_of(name, where, data, profile, seeds, progress, keep)
    sizes = SMALL if trials[0].ground.quick else Sizes()
    arms = arms_of(sizes)
    if only is not None:
        if wrong := [one for one in only if one not in arms]:
            raise ConfigError(f"{name}: knows no {', '.join(wrong)}; expected some of {', '.join(arms)}")
        arms = {one: arms[one] for one in arms if one in only}
    runs = [_answered(trial, arms, sizes) for trial in trials]
    place = trials[0].ground.name
    rows = [
        *_quality(runs, arms, sizes, place),
        *_retrieval(runs, sizes, place),
        *_flagged(runs, arms, place),
    ]
    return result(name, profile, seeds, began, rows, _claims(runs, arms, sizes, place)) | {
        "note": "P@1 counts the first item as right when it is among what the user met in the second half. Users of "
        "all seeds are pooled in intervals; a user may be a test user of several seeds."
    }


class Run:
    """What one trial answered: for every arm the first items at each K, and the facts of its training."""

    def __init__(self, trial: Trial, sizes: Sizes) -> None:
        self.trial, self.sizes = trial, sizes
        self.truth = trial.truth
        self.firsts: dict[str, Tensor] = {}  # [C, len(ks) + 1], the last for K = N
        self.told: dict[str, dict[str, Any]] = {}
        self.found = torch.empty(0)  # [C, most]
        self.about: dict[str, Any] = {}

    def right(self, arm: str, place: int, single: bool = False) -> Tensor:
        """Whether the first item was wanted [C]: one of all, or the very next."""
        return self._right(self.firsts[arm][:, place], single)

    def alone(self, single: bool = False) -> Tensor:
        """The same for the first of what was retrieved: K = 1."""
        return self._right(self.found[:, 0], single)

    def _right(self, first: Tensor, single: bool) -> Tensor:
        truth = self.truth[:, :1] if single else self.truth
        return is_in(first[:, None].long(), truth)[:, 0].double()


def _answered(trial: Trial, arms: Mapping[str, Arm], sizes: Sizes) -> Run:
    run, stages = Run(trial, sizes), TwoStages(trial, sizes)
    place = f"{trial.ground.name}/two stages"
    run.found, run.about = trial.kept.get(f"{place}/retriever/{trial.seed}", partial(_retrieved, stages))
    for name, arm in arms.items():
        run.firsts[name], run.told[name] = trial.kept.get(
            f"{place}/{name}/{trial.seed}", partial(_ranked, stages, arm), settings_of(arm, sizes)
        )
    return run


def _retrieved(stages: TwoStages) -> tuple[Tensor, dict[str, Any]]:
    """What test users are offered, and how often instances are retrieved in and out of sample."""
    crossed, within = stages.flags("crossfit"), stages.flags("in-sample")
    told = {
        str(k): {"crossfit": float(crossed.hit(k).mean()), "in-sample": float(within.hit(k).mean())}
        for k in sorted({1, 5, 10, 20, *stages.sizes.ks})
        if k <= stages.most
    }
    about = {"recall": told, "instances": len(stages.rows), "sources": list(crossed.made.sources)}
    return stages.candidates(stages.trial.split.test).to(torch.int32), about


def _ranked(stages: TwoStages, arm: Arm) -> tuple[Tensor, dict[str, Any]]:
    model, told = stages.ranker(arm)
    cases = stages.trial.split.test
    firsts = stages.firsts(model, cases, stages.candidates(cases), stages.sizes.ks)
    everywhere = stages.everywhere(model, cases)[:, None]
    advice = stages.advice(arm).as_dict() if arm.k else {}
    return torch.cat([firsts, everywhere], dim=1).to(torch.int32), {**told, "guard": advice}


def _quality(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """A row for every arm and K; K = N is the ranker alone over the catalogue, K = 1 the retriever alone."""
    rows = []
    for single, metric in ((False, "P@1"), (True, "next item first")):
        rows += [
            row(
                f"retriever alone on {place}", f"{metric}, K=1", [float(r.alone(single).mean()) for r in runs]
            )
        ]
        for name in arms:
            for at, k in enumerate((*sizes.ks, "N")):
                values = [float(r.right(name, at, single).mean()) for r in runs]
                rows.append(row(f"{name} on {place}", f"{metric}, K={k}", values))
    return rows


def _retrieval(runs: Sequence[Run], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """What the retriever passes on to test users, and how often training instances are retrieved."""
    rows = []
    for k in sizes.ks:
        sets = [_found(r, k) for r in runs]
        rows.append(
            row(f"retriever on {place}", f"recall of all that is wanted, K={k}", [a for a, _ in sets])
        )
        rows.append(row(f"retriever on {place}", f"next item retrieved, K={k}", [b for _, b in sets]))
    for k in runs[0].about["recall"]:
        for way in ("crossfit", "in-sample"):
            values = [r.about["recall"][k][way] for r in runs]
            rows.append(row(f"flags {way} on {place}", f"training instances retrieved, K={k}", values))
    return rows


def _found(run: Run, k: int) -> tuple[float, float]:
    found, truth = run.found[:, :k].long(), run.truth
    hit = is_in(truth, found)
    return float(hit.sum() / (truth >= 0).sum()), float(hit[:, 0].double().mean())


def _flagged(runs: Sequence[Run], arms: Mapping[str, Arm], place: str) -> list[dict[str, Any]]:
    """How many instances each arm learned from, and how long it took."""
    rows = []
    for name in arms:
        for what in ("instances", "effective", "best", "seconds"):
            rows.append(
                row(f"{name} on {place}", f"training: {what}", [float(r.told[name][what]) for r in runs])
            )
        if arms[name].k:
            for what in ("recall", "dropped_items", "dropped_share"):
                values = [float(r.told[name]["guard"][what]) for r in runs]
                rows.append(row(f"{name} on {place}", f"guard: {what}", values))
    return rows


def _claims(runs: Sequence[Run], arms: Mapping[str, Arm], sizes: Sizes, place: str) -> list[dict[str, Any]]:
    """What the paper says, what the specification expects, each with its interval; those whose arms were run."""
    low, middle, high = sizes.ks
    few, some, at = *strict_of(sizes), 1
    made = []
    for number, k in enumerate((low, middle, high)):
        made.append(_above(runs, f"H-TS {k}", "TS", number, f"above TS at K={k} on {place}", SOURCE))
    strict = f"H-TS {few}"
    made += [
        _below(runs, strict, "TS", at, f"below TS: too little is left, on {place}", f"{SPEC}, E3"),
        _below(
            runs,
            strict,
            f"as many by chance as {few}",
            at,
            f"below as many by chance, on {place}",
            f"{SPEC}, E3",
        ),
        _below(runs, f"H-TS {some}", "TS", at, f"below TS: too little is left, on {place}", f"{SPEC}, E3"),
        _small(runs, f"H-TS {middle}", "TS", at, place),
        _above(runs, "TS, candidates", "TS", at, f"above draws from the catalogue on {place}", f"{SPEC}, E2"),
        _above(
            runs,
            f"H-TS {middle}, candidates",
            "TS, candidates",
            at,
            f"above TS, candidates on {place}",
            f"{SPEC}, E2",
        ),
        _above(runs, "TS, both", "TS", at, f"above draws from the catalogue on {place}", f"{SPEC}, E2"),
        _above(
            runs,
            f"H-TS {middle}",
            f"H-TS {middle}, in sample",
            at,
            f"above flags in sample on {place}",
            f"{SPEC}, E4",
        ),
        _above(runs, f"mixed {middle}", "TS", at, f"above TS on {place}", f"{SPEC}, 6.3"),
        _above(runs, f"weighted {middle}", "TS", at, f"above TS on {place}", f"{SPEC}, 6.3"),
        _prunes(runs, "TS", at, middle, place),
        _prunes(runs, f"H-TS {middle}", at, middle, place),
    ]
    return [one for one in made if one is not None]


def _difference(runs: Sequence[Run], one: str, other: str, at: int) -> Any:
    if any(name not in runs[0].firsts for name in (one, other)):
        return None
    a, b = (torch.cat([run.right(name, at) for run in runs]) for name in (one, other))
    return paired(a, b, 0)


def _note(runs: Sequence[Run], one: str, other: str, at: int, users: int) -> str:
    ups = [float((run.right(one, at) - run.right(other, at)).mean()) for run in runs]
    seeds = f"above on {sum(up > 0 for up in ups)} of {len(ups)} seeds"
    return f"paired difference in P@1 over {users} answers to test users; {seeds}"


def _above(runs: Sequence[Run], one: str, other: str, at: int, says: str, source: str) -> Any:
    found = _difference(runs, one, other, at)
    if found is None:
        return None
    users = sum(len(run.truth) for run in runs)
    note = _note(runs, one, other, at, users)
    return claim(f"{one}: {says}", source, found.above, found.difference, note, [found.low, found.high])


def _below(runs: Sequence[Run], one: str, other: str, at: int, says: str, source: str) -> Any:
    found = _difference(runs, one, other, at)
    if found is None:
        return None
    note = _note(runs, one, other, at, sum(len(run.truth) for run in runs))
    return claim(f"{one}: {says}", source, found.below, found.difference, note, [found.low, found.high])


def _small(runs: Sequence[Run], one: str, other: str, at: int, place: str) -> Any:
    """The specification expects no more than a point either way."""
    found = _difference(runs, one, other, at)
    if found is None:
        return None
    holds = found.low >= -POINT and found.high <= POINT
    note = f"the interval lies within {POINT} of 0"
    return claim(
        f"{one}: within a point of {other} on {place}",
        f"{SPEC}, E2",
        holds,
        found.difference,
        note,
        [found.low, found.high],
    )


def _prunes(runs: Sequence[Run], arm: str, at: int, k: int, place: str) -> Any:
    """Corollary 4.2: whether the ranker does better on what is retrieved than on the whole catalogue."""
    if arm not in runs[0].firsts:
        return None
    a = torch.cat([run.right(arm, at) for run in runs])
    b = torch.cat([run.right(arm, len(run.sizes.ks)) for run in runs])
    found = paired(a, b, 0)
    note = "paired difference in P@1 between K and the whole catalogue: gain from pruning less loss from retrieval"
    return claim(
        f"{arm}: better on {k} retrieved items than on all on {place}",
        "two-stage bounds paper, corollary 4.2",
        found.above,
        found.difference,
        note,
        [found.low, found.high],
    )
