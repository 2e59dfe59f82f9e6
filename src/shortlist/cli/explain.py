"""shortlist explain: which stage dropped an item, and by how much."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.recommend import as_request
from shortlist.pipeline import Explanation, load_recommender


@errors_to_exit_codes()
def explain(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    item: Annotated[str, typer.Option(help="The id of the item to follow.")],
    user: Annotated[str | None, typer.Option(help="The id of a user.")] = None,
    history: Annotated[
        str | None, typer.Option(help="Item ids, oldest first, with commas between them.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="How many items.", min=1, max=1000)] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Follow one item through the request of one user, stage by stage."""
    recommender = load_recommender(bundle)
    told = recommender.explain(as_request(user, history, k, seed), item)
    title = recommender.catalog.title(told.item)
    if json:
        emit({**vars(recommender.item(told.item)), "sentence": told.sentence(title), **told.as_dict()})
        return
    typer.echo(told.sentence(title))
    for naming in told.namings:
        typer.echo(
            f"  named by {naming.nominator}: rank {naming.rank} of {naming.of}, score {_number(naming.score)}"
        )
    if told.passages:
        Console().print(passages_table(told))


def passages_table(told: Explanation) -> Table:
    """The item's way, a row per stage."""
    table = Table()
    for name in ("stage", "kind", "verdict", "rank", "of", "score", "needed"):
        table.add_column(name, justify="right" if name in ("rank", "of", "score", "needed") else "left")
    for one in told.passages:
        numbers = [_number(value) for value in (one.score, one.threshold)]
        table.add_row(one.stage, one.kind, one.verdict, str(one.rank or ""), str(one.of), *numbers)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
