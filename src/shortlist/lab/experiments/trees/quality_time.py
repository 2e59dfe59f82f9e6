"""Time to quality: how good a tree is after so many seconds of training, and when it passes simple models.

The clock starts with the first look at the events and runs through training, updates of the tree and judgements; the
curve is that of the validation users, the claims are on the test users, with what was seen left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.trees.trial import Trial, grounds_of, rows_of
from shortlist.lab.result import at_most, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "issue 3"
SIMPLE = ("ease", "item-knn", "popularity")
METHOD = "dtr-u"
LONGER = "dtr-u, longer"  # the name its answers are kept by: table 2 has a shorter one


def dtr_time(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1),
    progress: Progress = silent,
    cache_file: Path | None = None,
) -> dict[str, Any]:
    """One model per seed, longer taught than in the comparisons."""
    began, cache = start(), AnswerCache.open(cache_file)
    (ground,) = grounds_of(["ml-1m"], data, profile, "dtr-time")
    longer: dict[str, Any] = {} if ground.quick else {"steps": 1200, "eval_every": 200}
    found: dict[str, list[dict[str, Scores]]] = {}
    rows, seconds = [], []
    for seed in seeds:
        trial = Trial(ground, seed, cache, progress)
        for who in SIMPLE:
            found.setdefault(who, []).append(trial.flat(who))
        found.setdefault(METHOD, []).append(trial.scores(LONGER, METHOD, **longer))
        told = trial.facts(LONGER)
        seconds.append(float(told["seconds"]))
        rows += _curve(told["told"], seed)
    rows = [*rows_of(found, ground.name), row(METHOD, "training seconds", seconds), *rows]
    claims = [
        pooled(f"{METHOD} > {who} on {ground.name}", SOURCE, found[METHOD], found[who], True)
        for who in SIMPLE
    ]
    claims.append(at_most(f"seconds of training on {ground.name}", SOURCE, max(seconds), 300.0))
    return result("dtr-time", profile, seeds, began, rows, claims) | {"x": "seconds of training"}


def _curve(told: Sequence[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """A point for every judgement."""
    return [
        row(f"{METHOD}, seed {seed}", "f1@20 of validation users", [one["f1"]]) | {"x": one["seconds"]}
        for one in told
        if "f1" in one
    ]
