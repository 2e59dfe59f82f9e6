"""Figure 3 of the DTR paper: quality after every update of the tree.

The trainings are those of table 2, under the same names in the file of answers, and one more with a tree that stays
as it is: without it nobody could say whether quality rises by updates or by longer training.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import VARIANTS, Runs, experiment_name, name_of, trials_of
from shortlist.lab.experiments.trees.trial import Trial, rows_of
from shortlist.lab.experiments.trends import compare_pairs, over_seeds, steps_up
from shortlist.lab.result import result, row, start
from shortlist.progress import Progress, silent

SOURCE = "DTR paper, figure 3"
METHODS = ("jtm", *VARIANTS)
CONTROL = "dtr-u, tree as it was"
Course = Sequence[float]  # validation F@20 after 0, 1, 2, ... updates


def dtr_fig3(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
) -> dict[str, Any]:
    """Validation users after every update, test users at the end."""
    began, name = start(), experiment_name("dtr-fig3", where)
    trials = trials_of(name, where, data, profile, seeds, progress, cache_file)
    names = {who: who for who in METHODS} | {CONTROL: name_of(trials[0], "dtr-u", {"update": "none"})}
    found: dict[str, Runs] = {who: [one.scores(who, who) for one in trials] for who in METHODS}
    found[CONTROL] = [one.scores(names[CONTROL], "dtr-u", update="none") for one in trials]
    courses = {who: [_course(one, cache) for one in trials] for who, cache in names.items()}
    place = trials[0].ground.name
    rows = [*_rows(courses, place), *rows_of(found, place)]
    told = result(name, profile, seeds, began, rows, _claims(courses, found, place))
    return told | {"x": "updates of the tree"}


def _course(trial: Trial, cache: str) -> Course:
    """What validation users got at the end of every round."""
    steps = trial.plan("dtr-u").steps
    told = [one for one in trial.facts(cache)["told"] if "f1" in one]
    rounds = sorted({-(-one["step"] // steps) for one in told})
    return [[one["f1"] for one in told if -(-one["step"] // steps) == this][-1] for this in rounds]


def _rows(courses: Mapping[str, Sequence[Course]], place: str) -> list[dict[str, Any]]:
    return [
        row(f"{who} on {place}", "f1@20 of validation users", list(values)) | {"x": updates}
        for who, runs in courses.items()
        for updates, values in enumerate(zip(*runs, strict=True))
    ]


def _claims(
    courses: Mapping[str, Sequence[Course]], found: Mapping[str, Runs], place: str
) -> list[dict[str, Any]]:
    claims = []
    for who in VARIANTS:
        note = f"last less first f1@20 of validation users, {steps_up(courses[who][0])} with the first seed"
        rise = [one[-1] - one[0] for one in courses[who]]
        claims.append(over_seeds(f"{who} rises with updates on {place}", SOURCE, rise, note))
    claims.append(
        pooled(f"dtr-u > {CONTROL} on {place}", f"{SOURCE}, control", found["dtr-u"], found[CONTROL], True)
    )
    pairs = [*((who, "jtm") for who in VARIANTS), ("dtr-t", "dtr-u"), ("dtr-t-rl", "dtr-t")]
    return claims + compare_pairs(SOURCE, place, found, pairs)
