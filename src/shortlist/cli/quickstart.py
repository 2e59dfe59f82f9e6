"""shortlist quickstart: from nothing to an explained slate, on the embedded world."""

import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from shortlist import __version__
from shortlist.cli.evaluate import evaluation, metrics_table, stages_table
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.cli.recommend import slate_table
from shortlist.data import save_dataset
from shortlist.pipeline import Recommender, shipped_recipe
from shortlist.pipeline.recommender import Request
from shortlist.report import run_page
from shortlist.simulate import embedded
from shortlist.train.bundle import train_bundle

RECIPE = "classic"


@doors()
def quickstart(
    out: Annotated[Path, typer.Option(help="The folder for the data set, the bundle and the report.")] = Path(
        "runs/quickstart"
    ),
    size: Annotated[
        str, typer.Option(help="The embedded world: demo, or small for a first glance.")
    ] = "demo",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Make a world, train a pipeline on its log, and show which stage loses what."""
    began = time.perf_counter()
    data, bundle, report = out / "data", out / "bundle", out / "report.html"
    with progress() as tell:
        tell("make the world", 0, 1)
        dataset = embedded(seed, size)
        save_dataset(dataset, data, __version__, overwrite=True)
        tell("make the world", 1, 1)
        recommender, artifact = train_bundle(shipped_recipe(RECIPE), dataset, bundle, seed, tell, force=True)
        told = evaluation(recommender, dataset, "test", seed, tell)
    told["about"] |= {"seed": seed, "package": __version__, "model": artifact.version}
    write_whole(report, run_page(told))
    seconds = time.perf_counter() - began
    if json:
        emit(answer(told, seconds, report))
        return
    show(told, recommender, out, seconds)


def answer(told: dict[str, Any], seconds: float, report: Path) -> dict[str, Any]:
    """The result in the shape that scripts read."""
    wanted = ("recall@20", "ndcg@20")
    names = ("name", "kind", "entered", "survived", "lost")
    return {
        "seconds": seconds,
        "metrics": {
            who: {name: told["metrics"][who]["metrics"][name] for name in wanted}
            for who in ("pipeline", "popularity")
        },
        "stages": [{name: stage[name] for name in names} for stage in told["stages"]["stages"]],
        "report": str(report),
    }


def show(told: dict[str, Any], recommender: Recommender, out: Path, seconds: float) -> None:
    """The result for the eyes of a person, and what to type next."""
    console = Console()
    example = told["example"]
    console.print(metrics_table(told))
    console.print(stages_table(told))
    met = ", ".join(f"{one['title']} ({one['category']})" for one in example["history"][:5])
    console.print(f"\nuser {example['user']} last met: {met}")
    request = Request(example["user"])
    slate = recommender.recommend(request)
    console.print(slate_table(recommender, recommender.recommendations(slate)))
    typer.echo(str(slate.trace))
    for one in example["lost"]:
        typer.echo(f"  {one['sentence']}")
    missed = example["lost"][0]["item_id"] if example["lost"] else example["items"][0]["item_id"]
    typer.echo(f"\nmade in {seconds:.0f} s. The report: {out / 'report.html'}")
    typer.echo("next, ask where an item went:")
    program = "shortlist" if shutil.which("shortlist") else sys.argv[0]
    typer.echo(f"  {program} explain {out / 'bundle'} --user {example['user']} --item {missed}")
    typer.echo("or which stage loses most, and what mending it would bring:")
    page = f"--html {out / 'diagnosis.html'}"
    typer.echo(f"  {program} diagnose {out / 'bundle'} --data {out / 'data'} {page}")
    typer.echo("or serve it over HTTP:")
    typer.echo(f"  {program} serve {out / 'bundle'}")
