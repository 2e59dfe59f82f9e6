"""shortlist diagnose: what is wrong with the trees of a bundle, biggest loss first, and which knob to turn."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from shortlist.cli.evaluate import held_out, opened
from shortlist.cli.frame import Json, Seed, doors, emit, progress, write_whole
from shortlist.cli.trees import look_at_trees, trees_of
from shortlist.errors import ConfigError
from shortlist.report.tree import tree_page

CAPTION = """* no more nodes than the beam: nothing is lost. wrong: pairs of nodes in the wrong order.
reach: best of all leaves still in the beam. lost: held-out items that search lost here.
label: mean rectified label. KL, flat: distance from the model of negatives drawn by the tree, and uniformly.
pure: share of the most common category below a node, beside that of a random order."""


@doors()
def diagnose(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    data: Annotated[Path, typer.Option(help="The prepared data set the bundle was trained on.")],
    on: Annotated[str, typer.Option(help="Which held-out cases: test or valid.")] = "test",
    users: Annotated[
        int | None,
        typer.Option(min=1, help="How many users to look at; without it, as many as take a minute."),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("-k", "--k", min=1, help="How many items a tree is asked for; without it, its own."),
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Another beam than the tree's own.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with drawings to this file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Level by level: what a tree loses, whether scorer or search is to blame, and what to do about it."""
    began = time.perf_counter()
    recommender, dataset, lineage = opened(bundle, data)
    if not trees_of(recommender):
        raise ConfigError(
            f"{bundle}: has no tree to diagnose; its pipeline is {recommender.pipeline!r}. "
            "Use `shortlist evaluate` for the losses of its stages"
        )
    cases = held_out(recommender, dataset, on)
    with progress() as tell:
        trees = look_at_trees(recommender, dataset, cases, seed, tell, users, k, beam)
    about = {
        "name": recommender.about["name"],
        "model": recommender.about.get("version", ""),
        "data": dataset.name,
        "fingerprint": dataset.fingerprint,
        "split": f"{on} of {recommender.about['split']}",
        "seed": lineage.seed,
        "package": lineage.package,
    }
    told: dict[str, Any] = {"about": about, "trees": trees, "seconds": time.perf_counter() - began}
    if html is not None:
        write_whole(html, tree_page(told))
        told["html"] = str(html)
    if json:
        emit(told)
        return
    show(told)


def show(told: dict[str, Any]) -> None:
    """The verdict in words, then the numbers it comes from."""
    console = Console()
    for name, tree in told["trees"].items():
        console.print(
            f"tree {name!r}: {tree['items']:,} items, {tree['height']} levels, branch {tree['branch']}, beam "
            f"{tree['beam']}, asked for {tree['k']}; {tree['users']:,} users, "
            f"{tree['account']['wanted']:,} held-out items"
        )
        for number, one in enumerate(tree["findings"], start=1):
            console.print(f"{number}. {one['what']}", markup=False, highlight=False)
            console.print(f"   -> {one['knob']}", markup=False, highlight=False)
        console.print(levels_table(tree))
    if "html" in told:
        typer.echo(f"the page: {told['html']}")


def levels_table(tree: dict[str, Any]) -> Table:
    """A row per level; levels that fit into the beam are marked."""
    table = Table(
        title=f"level by level: {_left_out(tree)}",
        title_justify="left",
        caption=CAPTION,
        caption_justify="left",
    )
    for name in ("level", "nodes", "wrong", "reach", "lost", "label", "KL", "flat", "pure", "chance"):
        table.add_column(name, justify="right")
    for one in tree["levels"]:
        table.add_row(
            str(one["level"]),
            f"{one['nodes']:,}" + ("" if one["decides"] else "*"),
            _share(one["violations"]),
            _share(one["top_kept"]),
            f"{one['search_lost']:,}",
            _share(one["label"]),
            _number(one["kl_tree"]),
            _number(one["kl_uniform"]),
            _number(one["purity"]),
            _number(one["purity_chance"]),
        )
    return table


def _left_out(tree: dict[str, Any]) -> str:
    return f"{tree['regret']:.1%} of the best {tree['k']} of all leaves are left out"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
