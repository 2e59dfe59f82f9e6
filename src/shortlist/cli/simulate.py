"""shortlist simulate: a data set and a full-stage log of a world in which the utility of every item is known."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import check_target, check_writable, staged
from shortlist.cli.console.frame import Json, Seed, command, emit, errors_to_exit_codes, progress
from shortlist.cli.console.log_options import LogSet, log_settings
from shortlist.cli.console.output import echo
from shortlist.data import save_dataset
from shortlist.errors import ConfigError
from shortlist.grammar import Pipeline
from shortlist.pipeline import load_recommender
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recipe_settings import parse_settings
from shortlist.progress import Progress
from shortlist.settings import check_settings, settings_of
from shortlist.simulate.full_stage import SHAPES
from shortlist.simulate.full_stage.logged import (
    SERVED_WORLDS,
    ServedWorld,
    SimulatedLog,
    SimulationSettings,
    bundle_queries,
    served_world,
    simulate_requests,
    world_pipeline,
)

KEYS = ", ".join(one.name for one in settings_of(SimulationSettings) if one.name != "requests")


@errors_to_exit_codes()
def simulate(
    world: Annotated[str, typer.Argument(help=f"One of: {', '.join(SERVED_WORLDS)}.")],
    out: Annotated[Path, typer.Option(help="New folder for the data set (data) and the log (log).")],
    source: Annotated[
        Path | None, typer.Option(help="Folder or zip with the files of movielens or jester.")
    ] = None,
    size: Annotated[str, typer.Option(help=f"Size of short-video: {', '.join(SHAPES)}.")] = "small",
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 10_000,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Serve with this bundle, trained on the data of an earlier simulation of the same world; "
            "default: scores with an error around the utility."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help=f"Change a setting of the simulation: {KEYS}; repeatable."
        ),
    ] = None,
    log_set: LogSet = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write a data set, and a log of requests with their feedback, which `log` and `train --from-log` read."""
    began = time.perf_counter()
    chosen = simulation_settings(settings or [], requests)
    log, sampling = log_settings(log_set, out)
    check_target(out, overwrite=False)  # before the work, not after it
    check_writable(out)
    with progress() as show:
        served = served_world(world, chosen, source, size, seed, show)
        pipeline, version, queries = _server(served, bundle, chosen, show)
        with staged(out) as folder:
            save_dataset(served.data, folder / "data", __version__)
            done = simulate_requests(
                served, pipeline, folder / "log", chosen, log, sampling, version, queries, show
            )
    seconds = time.perf_counter() - began
    if json:
        emit({**as_json(done), "data": out / "data", "log": out / "log", "seconds": seconds})
    else:
        _print(done, out, seconds)


def simulation_settings(texts: Sequence[str], requests: int) -> SimulationSettings:
    """The settings of a simulation from `KEY=VALUE`."""
    given = parse_settings(texts)
    known = [one for one in settings_of(SimulationSettings) if one.name != "requests"]
    check_settings(given, known, "--set")
    lists: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return SimulationSettings(requests=requests, **lists)


def _server(
    world: ServedWorld, bundle: Path | None, settings: SimulationSettings, show: Progress
) -> tuple[Pipeline, str, Any]:
    """The pipeline that answers, the version of its bundle, and how its requests are built."""
    if bundle is None:
        return world_pipeline(world, settings, show), "", None
    recommender = load_recommender(bundle)
    if recommender.catalog.vocabulary != world.data.items or recommender.users != world.data.users:
        raise ConfigError(
            f"{bundle}: expected a bundle of the users and items of this world, got others; train it on the data of a "
            "simulation with the same world, size and seed"
        )
    return offline(recommender.pipeline), recommender.about.version, bundle_queries(recommender)


def _print(done: SimulatedLog, out: Path, seconds: float) -> None:
    echo(
        f"{done.requests:,} requests with {done.candidates:,} candidates, {done.impressions:,} impressions and "
        f"{done.positives:,} positives written to {out} in {seconds:.0f} s"
    )
    echo(f"next: {command('log', 'join', out / 'log')}")
    train = command("train", "RECIPE", "--data", out / "data", "--from-log", out / "log", "--out", "BUNDLE")
    echo(f"then, with a recipe of as many stages: {train}")
