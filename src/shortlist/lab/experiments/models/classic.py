"""The classic pipeline on MovieLens-1M: what every stage adds, and which stage loses what.

Users are split 80/10/10, a held-out user's first half goes in, the second half must come out, and what was seen is
never offered again. The quick profile does the same on the embedded small world.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist.data import Dataset, Split
from shortlist.data.read import read
from shortlist.errors import ConfigError
from shortlist.evaluate.evaluation import PipelineEvaluation, evaluate_pipeline
from shortlist.grammar import Pipeline, Pool, Stage, Top, as_pipeline
from shortlist.lab.experiments.claims import better
from shortlist.lab.result import result, row, start
from shortlist.pipeline import Recipe, shipped_recipe
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.stages import Seen
from shortlist.train import train

METRICS = ("recall@20", "ndcg@20", "f1@20")
DEPTH = 400  # how many a nominator is asked for when it stands alone: what was seen still has to go


def classic_ml1m(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> dict[str, Any]:
    """Train with each seed, on the split of the same seed; every system answers the same users."""
    began = start()
    dataset = _dataset(data, profile)
    found: dict[str, list[PipelineEvaluation]] = {}
    for seed in seeds:
        split = dataset.split(protocol="half-history", seed=seed)
        for name, evaluation in _evaluated(shipped_recipe("classic"), dataset, split, seed, progress).items():
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
    return result("classic-ml1m", profile, seeds, began, rows, _claims(found, seeds))


def _dataset(data: Path | None, profile: str) -> Dataset:
    if profile == "quick":
        return embedded(size="small")
    if profile != "full":
        raise ConfigError(f"classic-ml1m: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError("classic-ml1m: the full profile needs --data, a folder that holds ml-1m/ml-1m.zip")
    return read(data / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")


def _evaluated(
    recipe: Recipe, dataset: Dataset, split: Split, seed: int, progress: Progress
) -> dict[str, PipelineEvaluation]:
    """The pipeline, each of its nominators alone, and the pipeline cut short after each stage."""
    trained = train(recipe, dataset, seed, split, progress).pipeline
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


def _losses(runs: Sequence[PipelineEvaluation]) -> list[dict[str, Any]]:
    """The share of held-out items each stage loses."""
    shares: dict[str, list[float]] = {}
    for one in runs:
        for stage in one.losses.stages:
            shares.setdefault(stage.name, []).append(one.losses.share(stage.lost))
    return [row(f"lost at {name}", "share of held-out items", values) for name, values in shares.items()]


def _claims(found: dict[str, list[PipelineEvaluation]], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Better than popularity and than each nominator alone, on every split."""
    against = {
        name: runs for name, runs in found.items() if name != "pipeline" and not name.startswith("up to")
    }
    told = [
        better("pipeline > popularity", [(one.scores, one.popularity) for one in found["pipeline"]], seeds)
    ]
    for name, runs in against.items():
        pairs = [(ours.scores, other.scores) for ours, other in zip(found["pipeline"], runs, strict=True)]
        told.append(better(f"pipeline > {name}", pairs, seeds))
    return told
