"""Table 2 of the DTR paper: every tree method and exhaustive models on the same users.

Two more tables ask where its order comes from: vectors that begin by chance, as in the paper, and labels from the
next five events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import experiment_name
from shortlist.lab.experiments.trees.trial import Trial, grounds_of, rows_of
from shortlist.lab.experiments.trends import compare_pairs
from shortlist.lab.result import result, row, start
from shortlist.progress import Progress, silent

SOURCE = "DTR paper, table 2"
SECONDS = "training seconds, without what it begins with"  # a tree of JTM, an estimator
TREES = ("dtr-t-rl", "dtr-t", "dtr-u", "jtm", "tdm", "plt", "otm")
FLAT = ("sasrec", "ease", "item-knn", "popularity")
OTM: dict[str, Any] = {"steps": 200, "eval_every": 200}  # it goes on from JTM, with 300 nodes a level
OTHERWISE: Mapping[str, tuple[str, dict[str, Any]]] = {  # what is asked otherwise, in words and in the plan
    "chance": ("vectors by chance", {"embedding_init": "random"}),
    "ahead": ("labels from the next 5", {"ahead": 5}),
}
ABOVE = (  # who should stand above whom, strictly or not
    ("dtr-t-rl", "dtr-t", False),
    ("dtr-t", "dtr-u", False),
    ("dtr-u", "jtm", True),
    ("jtm", "tdm", True),
    ("tdm", "plt", True),
    ("dtr-t-rl", "otm", True),
    ("dtr-t-rl", "din", False),
    ("dtr-t-rl", "sasrec", False),
)

CONTROLS = (
    ("sasrec", "din"),
    ("dtr-u", "din"),
    ("otm", "jtm"),
)  # where what is missing is lost, what OTM adds


def dtr_table2(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    variant: str = "",
) -> dict[str, Any]:
    """A split and a model per seed, on MovieLens-1M or on the users of the published MIND instances."""
    began, cache = start(), AnswerCache.open(cache_file)
    name = experiment_name("dtr-table2", where) + (f"-{variant}" if variant else "")
    (ground,) = grounds_of([where], data, profile, name)
    if variant:
        said, given = OTHERWISE[variant]
        ground = replace(ground, name=f"{ground.name}, {said}", sizes={**ground.sizes, **given})
    found: dict[str, list[dict[str, Scores]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        trial = Trial(ground, seed, cache, progress)
        for who in (*FLAT, "din", *TREES):
            found.setdefault(who, []).append(answered(trial, who))
            seconds.setdefault(who, []).append(float(trial.facts(who)["seconds"]))
    rows = rows_of(found, ground.name)
    rows += [row(f"{who} on {ground.name}", SECONDS, times) for who, times in seconds.items()]
    return result(name, profile, seeds, began, rows, _claims(found, ground.name))


def answered(trial: Trial, who: str) -> dict[str, Scores]:
    """The scores of one system; OTM goes on from the tree and the scorer that JTM learned."""
    if who in FLAT:
        return trial.flat(who)
    if who != "otm":
        return trial.scores(who, who)
    return trial.scores(who, who, after="jtm", **({} if trial.ground.quick else OTM))


def _claims(found: Mapping[str, Sequence[Mapping[str, Scores]]], where: str) -> list[dict[str, Any]]:
    claims = [
        pooled(
            f"{upper} {'>' if strict else '>='} {lower} on {where}",
            SOURCE,
            found[upper],
            found[lower],
            strict,
        )
        for upper, lower, strict in ABOVE
    ]
    return claims + compare_pairs(f"{SOURCE}, control", where, found, CONTROLS)
