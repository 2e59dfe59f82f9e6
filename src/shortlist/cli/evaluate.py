"""shortlist evaluate: a bundle put to the test on the cases its split held out."""

import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from shortlist.artifact.as_json import as_json
from shortlist.artifact.store import Lineage, load
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.data import Dataset, HeldOut, load_dataset
from shortlist.diagnose.tree.bundle import look_at_trees
from shortlist.errors import ConfigError
from shortlist.evaluate.evaluation import KS
from shortlist.evaluate.evaluation import evaluate as put_to_test
from shortlist.evaluate.example import worked_example
from shortlist.evaluate.protocol import rules, seen_rule
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress
from shortlist.report import run_page
from shortlist.report.page import interval


@doors()
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out cases: test or valid.")] = "test",
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Metrics with intervals beside those of yardsticks, and the stage report: which stage lost what."""
    began = time.perf_counter()
    recommender, dataset, lineage = opened(bundle, data)
    with progress() as tell:
        told = evaluation(recommender, dataset, on, seed, tell)
    told["about"] |= {"seed": lineage.seed, "package": lineage.package}
    told["seconds"] = time.perf_counter() - began
    if report is not None:
        write_whole(report, run_page(told))
        told["report"] = str(report)
    if json:
        emit(told)
        return
    show(told)


def opened(bundle: Path, data: Path) -> tuple[Recommender, Dataset, Lineage]:
    """A bundle with the data set it was trained on, and no other."""
    dataset = load_dataset(data)
    recommender, lineage = bundle_of(bundle, dataset, data)
    return recommender, dataset, lineage


def bundle_of(bundle: Path, dataset: Dataset, data: Path) -> tuple[Recommender, Lineage]:
    """A bundle that was trained on a data set, which was read from `data`."""
    recommender = load_recommender(bundle)
    lineage = load(bundle).lineage
    if lineage.data != dataset.fingerprint:
        raise ConfigError(
            f"{bundle}: was trained on other data ({lineage.data}) than {data} holds ({dataset.fingerprint}); "
            "what it learned from could be among what it is asked"
        )
    return recommender, lineage


def evaluation(
    recommender: Recommender, dataset: Dataset, on: str, seed: int, tell: Progress
) -> dict[str, Any]:
    """Everything the report shows, as plain values."""
    split, cases = dataset.split(**recommender.about["split"]), held_out(recommender, dataset, on)
    found = put_to_test(recommender.pipeline, cases, split.train, progress=tell, clock=dataset.clock)
    told: dict[str, Any] = as_json(found.as_dict(seed))
    row = typical_case(found.scores["recall@20"])
    told["example"] = worked_example(recommender, dataset, cases, row, seed)
    told["trees"] = look_at_trees(recommender, dataset, cases, seed, tell)
    told["protocol"] = {
        **rules(recommender.about["split"], on, len(cases)),
        "seen items": seen_rule(recommender.pipeline),
    }
    told["about"] = {
        "name": recommender.about["name"],
        "model": recommender.about.get("version", ""),
        "data": dataset.name,
        "fingerprint": dataset.fingerprint,
        "pipeline": repr(resized(recommender.pipeline, max(KS))),
        "split": f"{on} of {recommender.about['split']}",
        "trained on": f"{len(split.train):,} events",
    }
    return told


def held_out(recommender: Recommender, dataset: Dataset, on: str) -> HeldOut:
    """The cases that the split of a bundle held out."""
    if on not in ("test", "valid"):
        raise ConfigError(f"--on must be test or valid, got {on!r}")
    split = dataset.split(**recommender.about["split"])
    return split.test if on == "test" else split.valid


def typical_case(recall: torch.Tensor) -> int:
    """The case whose recall is the median of those that found something: neither the best nor a failure."""
    found = torch.nonzero(recall > 0).flatten()
    if not len(found):
        return 0
    return int(found[recall[found].argsort(stable=True)[len(found) // 2]])


def show(told: dict[str, Any]) -> None:
    """The same on a terminal."""
    console = Console()
    console.print(metrics_table(told))
    console.print(stages_table(told))
    for name, rule in told["protocol"].items():
        console.print(f"{name}: {rule}", markup=False, highlight=False)


def metrics_table(told: dict[str, Any]) -> Table:
    """The pipeline with intervals, the means of the yardsticks on the same users beside it."""
    ours, *theirs = (one["metrics"] for one in told["metrics"].values())
    table = Table(title=f"{told['users']:,} held-out users", title_justify="left", caption=verdict(told))
    table.caption_justify = "left"
    for name in ("metric", *told["metrics"]):
        table.add_column(name.replace(" ", "\n", 1), no_wrap=True)
    for name in ours:
        if name.endswith("@20"):
            table.add_row(name, interval(ours[name]), *(_mean(one[name]) for one in theirs))
    return table


def verdict(told: dict[str, Any], metric: str = "recall@20") -> str:
    """How far the pipeline is above the best of the yardsticks, in a sentence."""
    means = {who: told["metrics"][who]["metrics"][metric]["mean"] for who in told["differences"]}
    best = max(means, key=lambda who: means[who] or 0.0)
    found = told["differences"][best][metric]
    return f"{metric} above {best}, the best yardstick: {interval(found, 'difference')}"


def _mean(one: dict[str, Any]) -> str:
    return "–" if one["mean"] is None else f"{one['mean']:.4f}"


def stages_table(told: dict[str, Any]) -> Table:
    """Which stage lost what."""
    wanted = max(told["stages"]["wanted"], 1)
    table = Table(title=f"which stage lost what: {wanted:,} held-out items", title_justify="left")
    for name in ("stage", "entered", "survived", "lost", "share"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for one in told["stages"]["stages"]:
        counts = [f"{one[name]:,}" for name in ("entered", "survived", "lost")]
        table.add_row(one["name"], *counts, f"{one['lost'] / wanted:.1%}")
    return table
