"""shortlist diagnose: which stage loses what people want, why, and what turning a knob brings."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from shortlist.artifact.as_json import as_json
from shortlist.artifact.store import Lineage, load
from shortlist.cli.diagnosed import say, show_funnel, show_tree
from shortlist.cli.evaluate import held_out, opened
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.data import Dataset
from shortlist.diagnose.coverage import covered
from shortlist.diagnose.diagnosis import USERS
from shortlist.diagnose.diagnosis import diagnose as look_at_funnel
from shortlist.diagnose.findings.findings import advice
from shortlist.diagnose.knobs.budget import advise, parse_budget
from shortlist.diagnose.knobs.retrain import (
    RANKERS,
    Trial,
    has_recipe,
    recipe_of,
    retrained,
    trials,
)
from shortlist.diagnose.sample import UserSample, panel
from shortlist.diagnose.shift import rehearsals
from shortlist.diagnose.tree.bundle import look_at_trees, trees_of
from shortlist.errors import ConfigError
from shortlist.evaluate.latency import one_thread
from shortlist.pipeline import Recommender
from shortlist.progress import Progress
from shortlist.report.diagnosis.budget import budget_lines
from shortlist.report.diagnosis.page import diagnosis_page
from shortlist.train.bundle import spoken

SECONDS = 30.0  # for measuring settings within a budget


@doors()
def diagnose(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out cases: test or valid.")] = "test",
    users: Annotated[
        int | None,
        typer.Option(min=1, help="How many users to look at; without it, as many as take a minute."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Find the best setting within this time per request, such as 30ms or 0.03s."),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain", help="Also measure what needs training: trains once for every setting tried."
        ),
    ] = False,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", min=1, help="How many items a tree is asked for; without it, its own."),
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Another beam than a tree's own.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with drawings to this file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Stage by stage: what a funnel loses of what people want, why, and which knob brings how much of it back."""
    began = time.perf_counter()
    _check_page(html)
    allowed = None if budget is None else _milliseconds(budget)
    recommender, dataset, lineage = opened(bundle, data)
    _check_tree_options(recommender, bundle, k, beam)
    cases = held_out(recommender, dataset, on)
    tries = _tries(bundle, retrain)
    with progress() as tell:
        asked = panel(cases, len(recommender.catalog), users or USERS, seed)
        with one_thread():  # batches are small: a second thread would wait more than it works
            told = funnel_told(bundle, recommender, dataset, asked, tell)
            told["trees"] = look_at_trees(recommender, dataset, cases, seed, tell, users, k, beam)
        if allowed is not None:
            told["budget"] = budget_told(recommender, asked, allowed, tell)
        if retrain:
            told["knobs"] += retrained(tries, recommender, dataset, lineage.seed, asked, tell)
        else:
            told["knobs"] += [one.knob() for one in tries]
    told["findings"] = [asdict(one) for one in advice(told)]
    told["about"] = facts_of(recommender, dataset, lineage, on)
    told["seconds"] = time.perf_counter() - began
    if html is not None:
        write_whole(html, diagnosis_page(told))
        told["html"] = str(html)
    if json:
        emit(told)
        return
    show(told)


def funnel_told(
    bundle: Path, recommender: Recommender, dataset: Dataset, asked: UserSample, tell: Progress
) -> dict[str, Any]:
    """The diagnosis of the whole funnel in plain values."""
    split = dataset.split(**recommender.about["split"])
    found = look_at_funnel(
        recommender,
        asked.cases,
        split.train,
        dataset.catalog,
        users=len(asked),
        seed=asked.seed,
        rehearsed=rehearsals(load(bundle)),
        progress=tell,
    )
    told: dict[str, Any] = as_json(found.as_dict())
    told["rehearsal"] = as_json(recommender.about.get("rehearsal", {}))
    told["training"] = as_json(recommender.about.get("training", {}))
    told["coverage"] = as_json(covered(recommender.pipeline, asked, tell).as_dict())
    return told


def budget_told(
    recommender: Recommender, asked: UserSample, allowed: float, tell: Progress
) -> dict[str, Any]:
    """What can be had within so many milliseconds, in plain values."""
    n_items, seed = len(recommender.catalog), asked.seed
    found = advise(
        recommender.pipeline, asked.cases, allowed, n_items, seconds=SECONDS, seed=seed, progress=tell
    )
    told: dict[str, Any] = as_json(found.as_dict())
    return told


def _milliseconds(budget: str) -> float:
    try:
        return parse_budget(budget)
    except ConfigError as error:
        raise ConfigError(f"--{error}") from error


def facts_of(recommender: Recommender, dataset: Dataset, lineage: Lineage, on: str) -> dict[str, Any]:
    """What was looked at."""
    return {
        "name": recommender.about["name"],
        "pipeline": repr(recommender.pipeline),
        "model": recommender.about.get("version", ""),
        "data": dataset.name,
        "fingerprint": dataset.fingerprint,
        "split": f"{on} cases, held out by {spoken(recommender.about['split'])}",
        "seed": lineage.seed,
        "package": lineage.package,
    }


def _check_page(html: Path | None) -> None:
    if html is not None and html.is_dir():
        raise ConfigError(
            f"--html: expected a file to write the page to, got the folder {html}; add a name to it"
        )


def _check_tree_options(recommender: Recommender, bundle: Path, k: int | None, beam: int | None) -> None:
    given = [name for name, value in (("-k", k), ("--beam", beam)) if value is not None]
    if given and not trees_of(recommender):
        raise ConfigError(
            f"{bundle}: {' and '.join(given)} asks a tree, and there is none in {recommender.pipeline!r}; leave it out"
        )


def _tries(bundle: Path, retrain: bool) -> tuple[Trial, ...]:
    """What could be trained again; asked for in vain, that is refused before any work."""
    if not retrain:
        return trials(recipe_of(bundle)) if has_recipe(bundle) else ()
    tries = trials(recipe_of(bundle))
    if not tries:
        raise ConfigError(
            f"{bundle}: --retrain needs a ranker with training modes ({', '.join(RANKERS)}) or a tree, and its recipe "
            "has neither; leave --retrain out"
        )
    settings = ", ".join(f"{one.stage}: {one.label} = {one.setting}" for one in tries)
    typer.echo(
        f"--retrain: {len(tries)} trainings, each as long as `shortlist train` took ({settings})", err=True
    )
    return tries


def show(told: dict[str, Any]) -> None:
    """The verdict in words, then the numbers it comes from."""
    console = Console()
    show_funnel(told, console)
    for line in budget_lines(told["budget"]) if "budget" in told else ():
        say(console, line)
    for name, tree in told["trees"].items():
        show_tree(name, tree, console)
    if "html" in told:
        typer.echo(f"the page: {told['html']}")
