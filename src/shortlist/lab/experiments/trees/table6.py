"""Table 6 of the DTR paper: the tree against sequence and graph models that score every item, on the same users."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.models.baselines import quick
from shortlist.lab.experiments.models.popular_window import PopularWindowTrainer
from shortlist.lab.experiments.sweeps import experiment_name
from shortlist.lab.experiments.trees.table2 import scores_of
from shortlist.lab.experiments.trees.trial import Trial, data_setups, rows_of
from shortlist.lab.result import Claim, Result, result, start
from shortlist.progress import Progress, silent
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer

SOURCE = "DTR paper, table 6"
TREE = "dtr-t-rl"
BASELINES = ("gru4rec", "sasrec", "fmlp", "lightgcn")  # those of the paper
MODELS: Mapping[str, ModelTrainer] = {
    "gru4rec": make_trainer("gru4rec", width=64, hidden=128),
    "fmlp": make_trainer("fmlp", batch_size=2048, learning_rate=2e-3),
    "lightgcn": make_trainer("lightgcn", learning_rate=5e-3, batch_size=8192, patience=8),
    "youtube-dnn": make_trainer("youtube-dnn"),
    "popular in window": PopularWindowTrainer(),
    "last-click": make_trainer("last-click"),
}
PAPER: Mapping[str, Mapping[str, float]] = {  # F@20; its Movie is ML-10M, its MIND has more users
    "ml-1m": {"gru4rec": 0.1281, "sasrec": 0.1392, "fmlp": 0.1450, "lightgcn": 0.0688, TREE: 0.1580},
    "mind": {"gru4rec": 0.2203, "sasrec": 0.2254, "fmlp": 0.2303, "lightgcn": 0.0806, TREE: 0.2350},
}


def dtr_table6(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] = (),
) -> Result:
    """A split and a model per seed; `only` some models, where a cache is filled in several processes."""
    began, cache = start(), AnswerCache.open(cache_file)
    name = experiment_name("dtr-table6", where)
    (data_setup,) = data_setups([where], data, profile, name)
    found: dict[str, list[dict[str, Scores]]] = {}
    for seed in seeds:
        trial = Trial(data_setup, seed, cache, progress)
        for model in only or (TREE, "sasrec", *MODELS, "popularity"):
            found.setdefault(model, []).append(_scores(trial, model))
    claims = [] if only else _claims(found, data_setup.name)
    return result(
        name,
        profile,
        seeds,
        began,
        rows_of(found, data_setup.name),
        claims,
        paper={} if profile == "quick" else PAPER[where],
        settings=cache.settings,
        training=cache.training,
    )


def _scores(trial: Trial, model: str) -> dict[str, Scores]:
    if model not in MODELS:
        return scores_of(trial, model)
    trainer = quick(MODELS[model]) if trial.data_setup.quick else MODELS[model]
    if isinstance(trainer, PopularWindowTrainer):
        trainer = trainer.for_clock(trial.data_setup.dataset.clock)
    return trial.model(model, trainer if trial.device == "auto" else _on(trainer, trial.device))


def _on(trainer: ModelTrainer, device: str) -> ModelTrainer:
    return trainer.with_settings(device=device) if "device" in trainer.settings() else trainer


def _claims(found: Mapping[str, Sequence[Mapping[str, Scores]]], dataset: str) -> list[Claim]:
    above = [
        pooled(f"{TREE} >= {model} on {dataset}", SOURCE, found[TREE], found[model], False)
        for model in BASELINES
    ]
    return above + [
        pooled(
            f"{model} > popularity on {dataset}",
            "target of this project",
            found[model],
            found["popularity"],
            True,
        )
        for model in (*BASELINES, "youtube-dnn")
    ]
