"""shortlist recommend: the slate of one user."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.output import Console, Table, echo, echo_lines
from shortlist.pipeline import Recommendation, Recommender, load_recommender
from shortlist.pipeline.recommender import Request


@errors_to_exit_codes()
def recommend(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    user: Annotated[
        str | None, typer.Option(help="User id; an unknown user is answered without a history.")
    ] = None,
    history: Annotated[str | None, typer.Option(help="Item ids, oldest first, separated by commas.")] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Number of items.", min=1, max=1000)] = None,
    seed: Seed = 0,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show how many candidates every stage kept, removed and cut.")
    ] = False,
    json: Json = False,
) -> None:
    """Recommend items to a user, or to anyone with this history."""
    recommender = load_recommender(bundle)
    request = as_request(user, history, k, seed)
    slate = recommender.recommend(request)
    items = recommender.recommendations(slate)
    given = request.history or ()
    unknown = [one for one in given if recommender.catalog.vocabulary.row(one) < 0]
    answer = {
        "user": user,
        "known_user": user is not None and recommender.users.row(user) >= 0,
        "model": {"name": recommender.about.name, "version": recommender.about.version},
        "ignored": len(unknown),
        "items": items,
        "degraded": [{"stage": note.stage, "cause": note.detail} for note in slate.trace.degraded],
        "stages": slate.trace.counts(),
    }
    if json:
        emit(answer)
        return
    console = Console()
    if user is not None and not answer["known_user"]:
        echo(f"user {user!r} is unknown; this is the slate of a user without a history", err=True)
    if unknown:
        echo(
            f"{len(unknown)} of {len(given)} items of the history are not in the catalogue and were ignored, "
            f"the first is {unknown[0]!r}",
            err=True,
        )
    if not items:
        echo(
            "the slate is empty; --trace shows what each stage nominated and removed, "
            "and a pool with `popular` answers users without a history",
            err=True,
        )
    console.print(slate_table(recommender, items))
    if trace:
        echo_lines(str(slate.trace))


def as_request(user: str | None, history: str | None, k: int | None, seed: int) -> Request:
    """The request of these command-line options."""
    items = None if history is None else [one.strip() for one in history.split(",") if one.strip()]
    return Request(user, items, k, seed=seed)


def slate_table(recommender: Recommender, items: Sequence[Recommendation]) -> Table:
    """A slate as a table."""
    table = Table(title=recommender.about.name, title_justify="left")
    for name in ("rank", "item", "title", "category", "score", "nominated by"):
        table.add_column(name, justify="right" if name in ("rank", "score") else "left")
    for one in items:
        score = "" if one.score is None else f"{one.score:.3f}"
        cells = (one.rank, one.item_id, one.title, one.category, score, ", ".join(one.nominators))
        table.add_row(*(str(cell) for cell in cells))
    return table
