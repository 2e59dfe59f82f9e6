"""Table 2 of the DTR paper: every tree method and models that score every item, on the same users.

Two variants ask where its order comes from: random initial vectors, as in the paper, and labels from the next five
events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.sweeps import experiment_name
from shortlist.lab.experiments.trees.trial import Trial, data_setups, rows_of
from shortlist.lab.experiments.trends import compare_pairs
from shortlist.lab.result import Claim, Result, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "DTR paper, table 2"
SECONDS = "training seconds, without initial tree and estimator"
TREES = ("dtr-t-rl", "dtr-t", "dtr-u", "jtm", "tdm", "plt", "otm")
FULL_CATALOG = ("sasrec", "ease", "item-knn", "popularity")
OTM: dict[str, Any] = {"steps": 200, "eval_every": 200}  # it continues from JTM, with 300 nodes per level
VARIANTS: Mapping[str, tuple[str, dict[str, Any]]] = {  # label and settings of the plan
    "random-init": ("random initial vectors", {"embedding_init": "random"}),
    "ahead": ("labels from the next 5", {"ahead": 5}),
}
ABOVE = (  # (upper, lower, whether strictly)
    ("dtr-t-rl", "dtr-t", False),
    ("dtr-t", "dtr-u", False),
    ("dtr-u", "jtm", True),
    ("jtm", "tdm", True),
    ("tdm", "plt", True),
    ("dtr-t-rl", "otm", True),
    ("dtr-t-rl", "din", False),
    ("dtr-t-rl", "sasrec", False),
)
# What the tree loses against scoring every item, and what OTM adds.
CONTROLS = (("sasrec", "din"), ("dtr-u", "din"), ("otm", "jtm"))


def dtr_table2(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    variant: str = "",
) -> Result:
    """A split and a model per seed, on MovieLens-1M or on the users of the published MIND instances."""
    began, cache = start(), AnswerCache.open(cache_file)
    name = experiment_name("dtr-table2", where) + (f"-{variant}" if variant else "")
    (data_setup,) = data_setups([where], data, profile, name)
    if variant:
        label, settings = VARIANTS[variant]
        data_setup = replace(
            data_setup, name=f"{data_setup.name}, {label}", sizes={**data_setup.sizes, **settings}
        )
    found: dict[str, list[dict[str, Scores]]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in seeds:
        trial = Trial(data_setup, seed, cache, progress)
        for system in (*FULL_CATALOG, "din", *TREES):
            found.setdefault(system, []).append(scores_of(trial, system))
            seconds.setdefault(system, []).append(float(trial.facts(system)["seconds"]))
    rows = rows_of(found, data_setup.name)
    rows += [row(f"{system} on {data_setup.name}", SECONDS, times) for system, times in seconds.items()]
    return result(
        name,
        profile,
        seeds,
        began,
        rows,
        _claims(found, data_setup.name),
        settings=cache.settings,
        training=cache.training,
    )


def scores_of(trial: Trial, system: str) -> dict[str, Scores]:
    """The scores of one system; OTM continues from the tree and the scorer of JTM."""
    if system in FULL_CATALOG:
        return trial.full_catalog(system)
    if system != "otm":
        return trial.scores(system, system)
    return trial.scores(system, system, after="jtm", **({} if trial.data_setup.quick else OTM))


def _claims(found: Mapping[str, Sequence[Mapping[str, Scores]]], dataset: str) -> list[Claim]:
    claims = [
        pooled(
            f"{upper} {'>' if strict else '>='} {lower} on {dataset}",
            SOURCE,
            found[upper],
            found[lower],
            strict,
        )
        for upper, lower, strict in ABOVE
    ]
    return claims + compare_pairs(f"{SOURCE}, control", dataset, found, CONTROLS)
