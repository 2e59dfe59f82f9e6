"""Table 2 of the DTR paper: every tree method and exhaustive models on the same users."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.evaluate import Scores
from shortlist.progress import Progress, silent
from shortlist.report.result import result, row, start
from shortlist.reproduce.claims import pooled
from shortlist.reproduce.kept import Kept
from shortlist.reproduce.trees import Trial, grounds_of, rows_of

SOURCE = "DTR paper, table 2"
SECONDS = "training seconds, without what it begins with"  # a tree of JTM, an estimator
TREES = ("dtr-t-rl", "dtr-t", "dtr-u", "jtm", "tdm", "plt", "otm")
FLAT = ("sasrec", "ease", "item-knn", "popularity")
OTM: dict[str, Any] = {
    "steps": 200,
    "judge_every": 200,
    "rate": 1e-3,
}  # it goes on from JTM, with 300 nodes a level
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


def dtr_table2(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    keep: Path | None = None,
) -> dict[str, Any]:
    """MovieLens-1M: a split and a model per seed."""
    return _table("dtr-table2", "ml-1m", data, profile, seeds, progress, keep)


def dtr_table2_mind(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    keep: Path | None = None,
) -> dict[str, Any]:
    """The users of the published MIND instances."""
    return _table("dtr-table2-mind", "mind", data, profile, seeds, progress, keep)


def _table(
    name: str,
    where: str,
    data: Path | None,
    profile: str,
    seeds: Sequence[int],
    progress: Progress,
    keep: Path | None,
) -> dict[str, Any]:
    began, kept = start(), Kept.at(keep)
    (ground,) = grounds_of([where], data, profile, name)
    found: dict[str, list[dict[str, Scores]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        trial = Trial(ground, seed, kept, progress)
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
    return [
        pooled(
            f"{upper} {'>' if strict else '>='} {lower} on {where}",
            SOURCE,
            found[upper],
            found[lower],
            strict,
        )
        for upper, lower, strict in ABOVE
    ]
