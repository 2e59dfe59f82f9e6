"""Time to quality: how good a tree is after a number of seconds of training, and when it beats simple models.

The clock starts when the events are first read and includes training, updates of the tree and validation. The curve is
that of the validation users; the claims are about the test users, with items of the history excluded.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.trees.trial import Trial, data_setups, rows_of
from shortlist.lab.result import Result, Row, at_most, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "target of this project"
SIMPLE = ("ease", "item-knn", "popularity")
METHOD = "dtr-u"
LONGER = "dtr-u, longer"  # its name in the cache: table 2 has a shorter training


def dtr_time(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1),
    progress: Progress = silent,
    cache_file: Path | None = None,
) -> Result:
    """One model per seed, trained longer than in the comparisons."""
    began, cache = start(), AnswerCache.open(cache_file)
    (data_setup,) = data_setups(["ml-1m"], data, profile, "dtr-time")
    longer: dict[str, Any] = {} if data_setup.quick else {"steps": 1200, "eval_every": 200}
    found: dict[str, list[dict[str, Scores]]] = {}
    curves: list[Row] = []
    seconds = []
    for seed in seeds:
        trial = Trial(data_setup, seed, cache, progress)
        for model in SIMPLE:
            found.setdefault(model, []).append(trial.full_catalog(model))
        found.setdefault(METHOD, []).append(trial.scores(LONGER, METHOD, **longer))
        facts = trial.facts(LONGER)
        seconds.append(float(facts["seconds"]))
        curves += _curve(facts["log"], seed)
    claims = [
        pooled(f"{METHOD} > {model} on {data_setup.name}", SOURCE, found[METHOD], found[model], True)
        for model in SIMPLE
    ]
    claims.append(at_most(f"seconds of training on {data_setup.name}", SOURCE, max(seconds), 300.0))
    return result(
        "dtr-time",
        profile,
        seeds,
        began,
        [*rows_of(found, data_setup.name), row(METHOD, "training seconds", seconds), *curves],
        claims,
        x="seconds of training",
        settings=cache.settings,
        training=cache.training,
    )


def _curve(log: Sequence[Mapping[str, Any]], seed: int) -> list[Row]:
    """A point for every validation."""
    return [
        row(f"{METHOD}, seed {seed}", "f1@20 of validation users", [entry["f1"]], x=entry["seconds"])
        for entry in log
        if "f1" in entry
    ]
