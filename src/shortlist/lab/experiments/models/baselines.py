"""Sequence models, classic models and counts on MovieLens-1M, leave-last-out over the whole catalogue.

Every user's last event is the test event; the one before it is for early stopping and for the choice of settings. No
model is trained on either. Items of the history are excluded, ties go to the lower row, and no negatives are sampled in
the evaluation. Events of the same second keep the order of the file, as in the published figures beside ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shortlist.data import Dataset
from shortlist.data.read import read
from shortlist.errors import ConfigError
from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.popular_window import PopularWindowTrainer
from shortlist.lab.experiments.models.trials import ModelTrial
from shortlist.lab.result import Claim, Result, at_least, claim, result, row, start
from shortlist.metrics.significance import paired
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer

SOURCE = "target of this project"
METRICS = ("recall@10", "ndcg@10", "recall@20", "ndcg@20", "mrr@10")
LEAVE_LAST_OUT: Mapping[str, Any] = {"protocol": "leave-last-out"}
VALIDATION: Mapping[str, Any] = {"early_stop_metric": "ndcg@10", "validation_users": 10_000}
SASREC: ModelTrainer = make_trainer(
    "sasrec", width=256, heads=4, max_history=200, epochs=80, patience=10, **VALIDATION
)
MF: ModelTrainer = make_trainer("mf", learning_rate=3e-3, weight_decay=0.01, patience=10, **VALIDATION)

# Settings were chosen on the validation events of seed 0.
TRAINERS: Mapping[str, ModelTrainer] = {
    "sasrec": SASREC,
    "sasrec, sampled softmax": SASREC.with_settings(loss="sampled", negatives=256, epochs=120),
    "sasrec, bce": SASREC.with_settings(loss="bce", negatives=1, alpha=0.0, epochs=120),
    "bert4rec": make_trainer(
        "bert4rec", width=256, heads=4, max_history=100, epochs=150, patience=25, **VALIDATION
    ),
    "gru4rec": make_trainer(
        "gru4rec", width=128, hidden=256, max_history=200, epochs=60, patience=8, **VALIDATION
    ),
    "fmlp": make_trainer(
        "fmlp",
        max_history=50,
        batch_size=2048,
        learning_rate=2e-3,
        instances=400_000,
        patience=5,
        **VALIDATION,
    ),
    "din": make_trainer("din", batch_size=1024, instances=100_000, epochs=20, patience=4, **VALIDATION),
    "youtube-dnn": make_trainer(
        "youtube-dnn", width=128, max_history=200, epochs=80, patience=8, **VALIDATION
    ),
    "sum-pooling": make_trainer(
        "sum-pooling", width=128, max_history=200, epochs=60, patience=8, **VALIDATION
    ),
    "mf, softmax": MF,
    "mf, bpr": MF.with_settings(loss="bpr", alpha=0.0),
    "mf, ccf": MF.with_settings(loss="ccf", negatives=64, alpha=0.0),
    "lightgcn": make_trainer("lightgcn", learning_rate=5e-3, batch_size=8192, patience=8, **VALIDATION),
    "ease": make_trainer("ease", ridge=250.0),
    "item-knn": make_trainer("item-knn", neighbours=5),
    "last-click": make_trainer("last-click"),
    "popular in window": PopularWindowTrainer(),
}
POPULARITY = "popularity"


@dataclass(frozen=True)
class Public:
    """A published figure; `note` compares its protocol with ours."""

    recall: float
    ndcg: float | None
    note: str
    firm: bool = True  # whether its source and its protocol are known

    @property
    def text(self) -> str:
        return "reaches its public figure" if self.firm else "reaches a figure of no known source or protocol"


SAME = "leave-last-out, all ratings, seen items left out, items with fewer than five events removed"
PUBLIC: Mapping[str, Public] = {
    "sasrec": Public(
        0.3159,
        0.1857,
        f"antklen/sasrec-bert4rec-recsys23, 3000 negatives, the highest found: {SAME}; RecTools 0.3058 / 0.1779",
    ),
    "sasrec, sampled softmax": Public(
        0.2929, 0.1684, "blondered/transformer_benchmark: leave-last-out, all ratings and items, width 64"
    ),
    "sasrec, bce": Public(0.2500, 0.1341, f"antklen/sasrec-bert4rec-recsys23: {SAME}"),
    "bert4rec": Public(0.2921, 0.1618, f"RecTools, in blondered/bert4rec_repro: {SAME}"),
    "gru4rec": Public(0.2811, 0.1648, f"quoted in meta-recsys/generative-recommenders: {SAME}"),
    "fmlp": Public(
        0.2363, None, "TedRec's authors, in a reply to reviewers; protocol not stated", firm=False
    ),
    "mf, bpr": Public(0.0740, 0.0377, f"blondered/bert4rec_repro: {SAME}"),
    "lightgcn": Public(
        0.084, 0.041, "Concius/brasnam2026-manifold-recsys: leave-last-out, epoch chosen on the test"
    ),
    "item-knn": Public(
        0.0762, 0.0378, "an unnamed repository: leave-last-out, all ratings, full ranking", firm=False
    ),
    "last-click": Public(
        0.2112, 0.1240, "first-order Markov chain in spotify-research/sequential-capacity-probes, same data"
    ),
}
STEPS = (
    ("sasrec", "gru4rec"),
    ("sasrec", "bert4rec"),
    ("sasrec", "sasrec, sampled softmax"),
    ("sasrec, sampled softmax", "sasrec, bce"),
)  # the effects of attention, of the direction and of the loss
BERT4REC_TOLERANCE = 0.03  # share of its public figure that BERT4Rec may miss


def baselines_ml1m(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
) -> Result:
    """Every model with every seed on the same split; `only` some, where a cache is filled in several processes."""
    began, cache = start(), AnswerCache.open(cache_file)
    dataset = dataset_of(data, profile, "baselines-ml1m")
    found: dict[str, list[Scores]] = {}
    for seed in seeds:
        trial = ModelTrial(dataset.name, dataset, seed, LEAVE_LAST_OUT, cache, progress)
        for name in only or (*TRAINERS, POPULARITY):
            found.setdefault(name, []).append(scores_of(trial, name, profile))
    rows = [
        row(name, metric, [float(one[metric].nanmean()) for one in runs])
        for name, runs in found.items()
        for metric in METRICS
    ]
    claims = [] if only else [_above(name, found) for name in found if name != POPULARITY]
    if profile == "full" and not only:
        claims = _against_public(found) + [_above(one, found, other) for one, other in STEPS] + claims
    return result(
        "baselines-ml1m",
        profile,
        seeds,
        began,
        rows,
        claims,
        protocol={**LEAVE_LAST_OUT, "users": len(next(iter(found.values()))[0])},
        settings=cache.settings,
        training=cache.training,
    )


def dataset_of(data: Path | None, profile: str, experiment: str) -> Dataset:
    """The small simulated world for quick, MovieLens-1M for full."""
    if profile == "quick":
        return embedded(size="small")
    if profile != "full":
        raise ConfigError(f"{experiment}: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError(f"{experiment}: the full profile needs --data, a folder that holds ml-1m/ml-1m.zip")
    return read(data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")


def scores_of(trial: ModelTrial, name: str, profile: str) -> Scores:
    """The scores of a model or of popularity on the test events."""
    if name == POPULARITY:
        return trial.scores(name, PopularWindowTrainer(days=0.0))
    return trial.scores(name, TRAINERS[name] if profile == "full" else quick(TRAINERS[name]))


def quick(trainer: ModelTrainer) -> ModelTrainer:
    """The same trainer at a size that takes seconds."""
    small: dict[str, Any] = {
        "width": 16,
        "hidden": 16,
        "blocks": 1,
        "heads": 1,
        "max_history": 12,
        "epochs": 2,
        "batch_size": 256,
        "instances": 1000,
        "negatives": 8,
        "device": "cpu",
        "layers": (16,),
        "windows": (8, 2, 1, 1),
    }
    known = trainer.settings()
    if isinstance(known.get("layers"), int):
        small["layers"] = 1
    return trainer.with_settings(**{name: value for name, value in small.items() if name in known})


def _against_public(found: Mapping[str, Sequence[Scores]]) -> list[Claim]:
    claims = [
        at_least("sasrec, recall@10", SOURCE, _mean(found["sasrec"], "recall@10"), 0.30),
        at_least("sasrec, ndcg@10", SOURCE, _mean(found["sasrec"], "ndcg@10"), 0.175),
        at_least(
            "bert4rec, recall@10",
            SOURCE,
            _mean(found["bert4rec"], "recall@10"),
            round(PUBLIC["bert4rec"].recall * (1 - BERT4REC_TOLERANCE), 4),
        ),
    ]
    for name, public in PUBLIC.items():
        ours = _mean(found[name], "recall@10")
        note = f"public {public.recall:.4f}" + (f" / {public.ndcg:.4f}" if public.ndcg else "")
        claims.append(
            claim(
                f"{name} {public.text}",
                SOURCE,
                ours >= public.recall,
                ours,
                f"{note}: {public.note}",
            )
        )
    return claims


def _above(name: str, found: Mapping[str, Sequence[Scores]], other: str = POPULARITY) -> Claim:
    """A model is clearly above another over the users, who are the same for every seed and count once."""
    ours, theirs = (
        torch.stack([one["recall@10"] for one in found[model]]).mean(0) for model in (name, other)
    )
    test = paired(ours, theirs, 0)
    note = f"paired difference in recall@10 over {len(ours)} users, each the mean over seeds; "
    note += f"effect size {test.effect_size:.2f}"
    return claim(f"{name} > {other}", SOURCE, test.above, test.difference, note, [test.low, test.high])


def _mean(runs: Sequence[Scores], metric: str) -> float:
    return sum(float(one[metric].nanmean()) for one in runs) / len(runs)
