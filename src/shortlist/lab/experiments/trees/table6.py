"""Table 6 of the DTR paper: the tree against sequence and graph models that score every item, on the same users."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.experiments.claims import pooled
from shortlist.lab.experiments.models.baselines import quick
from shortlist.lab.experiments.sweeps import titled
from shortlist.lab.experiments.trees.common import Trial, grounds_of, rows_of
from shortlist.lab.experiments.trees.table2 import answered
from shortlist.lab.result import result, start
from shortlist.progress import Progress, silent
from shortlist.train.models.fmlp import FMLPTrainer
from shortlist.train.models.gru4rec import GRU4RecTrainer
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.lightgcn import LightGCNTrainer
from shortlist.train.models.popular_window import PopularWindowTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.models.youtube_dnn import YouTubeDNNTrainer

SOURCE = "DTR paper, table 6"
TREE = "dtr-t-rl"
RIVALS = ("gru4rec", "sasrec", "fmlp", "lightgcn")  # those of the paper
MODELS: Mapping[str, ModelTrainer] = {
    "gru4rec": GRU4RecTrainer(width=64, hidden=128),
    "fmlp": FMLPTrainer(batch_size=2048, learning_rate=2e-3),
    "lightgcn": LightGCNTrainer(learning_rate=5e-3, batch_size=8192, patience=8),
    "youtube-dnn": YouTubeDNNTrainer(),
    "popular in window": PopularWindowTrainer(),
    "last-click": LastClickTrainer(),
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
    keep: Path | None = None,
    where: str = "ml-1m",
    only: Sequence[str] = (),
) -> dict[str, Any]:
    """A split and a model per seed; `only` some of them, where answers are made for others to take."""
    began, kept = start(), Kept.at(keep)
    name = titled("dtr-table6", where)
    (ground,) = grounds_of([where], data, profile, name)
    found: dict[str, list[dict[str, Scores]]] = {}
    for seed in seeds:
        trial = Trial(ground, seed, kept, progress)
        for who in only or (TREE, "sasrec", *MODELS, "popularity"):
            found.setdefault(who, []).append(_answered(trial, who))
    claims = [] if only else _claims(found, ground.name)
    told = result(name, profile, seeds, began, rows_of(found, ground.name), claims)
    return told if profile == "quick" else told | {"paper": dict(PAPER[where])}


def _answered(trial: Trial, who: str) -> dict[str, Scores]:
    if who not in MODELS:
        return answered(trial, who)
    trainer = quick(MODELS[who]) if trial.ground.quick else MODELS[who]
    if isinstance(trainer, PopularWindowTrainer):
        trainer = trainer.clocked(trial.ground.dataset.clock)
    return trial.model(who, trainer if trial.device == "auto" else _on(trainer, trial.device))


def _on(trainer: ModelTrainer, device: str) -> ModelTrainer:
    return replace(trainer, **({"device": device} if hasattr(trainer, "device") else {}))


def _claims(found: Mapping[str, Sequence[Mapping[str, Scores]]], where: str) -> list[dict[str, Any]]:
    above = [pooled(f"{TREE} >= {who} on {where}", SOURCE, found[TREE], found[who], False) for who in RIVALS]
    return above + [
        pooled(f"{who} > popularity on {where}", "issue 4", found[who], found["popularity"], True)
        for who in (*RIVALS, "youtube-dnn")
    ]
