"""The classic pipeline on MovieLens-1M: what every stage adds, and which stage loses what.

Users are split 80/10/10. The first half of a held-out user's history is the input, the second half is relevant, and
items of the history are excluded. The quick profile does the same on the small simulated world.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.data import Dataset, Split
from shortlist.data.read import read
from shortlist.errors import ConfigError
from shortlist.evaluate.pipeline_evaluation import PipelineEvaluation, evaluate_pipeline
from shortlist.grammar import Pipeline, Pool, Stage, Top, as_pipeline
from shortlist.lab.experiments.claims import better
from shortlist.lab.result import Claim, Result, Row, result, row, start
from shortlist.pipeline import shipped_recipe
from shortlist.pipeline.about import TrainingHistory
from shortlist.pipeline.recipe import StageConfig
from shortlist.pipeline.registry import TYPES
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.stages import Seen
from shortlist.train.pipeline import train_pipeline
from shortlist.train.registry import train_settings

METRICS = ("recall@20", "ndcg@20", "f1@20")
DEPTH = 400  # candidates of a nominator alone: items of the history are still removed


def classic_ml1m(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """Train with each seed on the split of that seed; all systems are evaluated on the same users."""
    began = start()
    dataset = _dataset(data, profile)
    recipe = shipped_recipe("classic")
    found: dict[str, list[PipelineEvaluation]] = {}
    training: dict[str, TrainingHistory] = {}
    for seed in seeds:
        split = dataset.split(protocol="half-history", seed=seed)
        bundle = train_pipeline(recipe, dataset, seed, split, progress).recommender
        training |= {f"{stage}/{seed}": history for stage, history in bundle.about.training.items()}
        for name, evaluation in _evaluated(bundle.pipeline, split).items():
            found.setdefault(name, []).append(evaluation)
    rows = [
        row(name, metric, [float(one.scores[metric].nanmean()) for one in runs])
        for name, runs in found.items()
        for metric in METRICS
    ]
    rows += [
        row("popularity", metric, [float(one.popularity[metric].nanmean()) for one in found["pipeline"]])
        for metric in METRICS
    ]
    rows += _losses(found["pipeline"])
    settings = {name: _settings(stage) for name, stage in recipe.stages.items()}
    return result(
        "classic-ml1m",
        profile,
        seeds,
        began,
        rows,
        _claims(found, seeds),
        settings=settings,
        training=training,
    )


def _settings(stage: StageConfig) -> dict[str, Any]:
    """All settings of a stage and of its training, with their defaults."""
    own = {one.name: one.default for one in TYPES[stage.type].declared() if not one.required}
    training = {one.name: one.default for one in train_settings(stage.type) if not one.required}
    return {"type": stage.type, **own, **stage.settings, "train": {**training, **stage.train}}


def _dataset(data: Path | None, profile: str) -> Dataset:
    if profile == "quick":
        return embedded(size="small")
    if profile != "full":
        raise ConfigError(f"classic-ml1m: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError("classic-ml1m: the full profile needs --data, a folder that holds ml-1m/ml-1m.zip")
    return read(data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")


def _evaluated(trained: Pipeline, split: Split) -> dict[str, PipelineEvaluation]:
    """The pipeline, each of its nominators alone, and the pipeline cut off after each stage."""
    systems: dict[str, Stage] = {"pipeline": trained}
    for part in trained.nominators:
        systems[part.title] = Pipeline((Pool((part % DEPTH,)), Top(Seen(name="seen"), 20)))
    for count in range(2, len(trained.stages)):
        shown = trained.stages[:count]
        systems[f"up to {shown[-1].title}"] = Pipeline((*shown[:-1], _cut(shown[-1])))
    return {
        name: evaluate_pipeline(as_pipeline(one), split.test, split.train, (20,))
        for name, one in systems.items()
    }


def _cut(stage: Stage) -> Stage:
    return Top(stage.inner if isinstance(stage, Top) else stage, 20)


def _losses(runs: Sequence[PipelineEvaluation]) -> list[Row]:
    """The share of held-out items each stage loses."""
    shares: dict[str, list[float]] = {}
    for one in runs:
        for stage in one.losses.stages:
            shares.setdefault(stage.name, []).append(one.losses.share(stage.lost))
    return [row(f"lost at {name}", "share of held-out items", values) for name, values in shares.items()]


def _claims(found: dict[str, list[PipelineEvaluation]], seeds: Sequence[int]) -> list[Claim]:
    """Better than popularity and than each nominator alone, on every split."""
    against = {
        name: runs for name, runs in found.items() if name != "pipeline" and not name.startswith("up to")
    }
    claims = [
        better("pipeline > popularity", [(one.scores, one.popularity) for one in found["pipeline"]], seeds)
    ]
    for name, runs in against.items():
        pairs = [(ours.scores, other.scores) for ours, other in zip(found["pipeline"], runs, strict=True)]
        claims.append(better(f"pipeline > {name}", pairs, seeds))
    return claims
