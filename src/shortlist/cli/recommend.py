"""shortlist recommend: the slate of one user, or of many in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.output import Console, Table, echo, echo_lines
from shortlist.cli.recommend_many import check_batch_options, recommend_to_many
from shortlist.data import Catalog
from shortlist.pipeline import Recommendation, Recommender, load_recommender
from shortlist.pipeline.find_item import find_history, find_item
from shortlist.pipeline.recommender import Request

History = Annotated[
    str | None, typer.Option(help="Item ids or whole titles, oldest first, separated by commas.")
]


@errors_to_exit_codes()
def recommend(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    user: Annotated[
        str | None, typer.Option(help="User id; an unknown user is answered without a history.")
    ] = None,
    history: History = None,
    like: Annotated[
        list[str] | None,
        typer.Option(help="An item to start from, by id or title; repeatable, the oldest first."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Number of items.", min=1, max=1000)] = None,
    seed: Seed = 0,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show how many candidates every stage kept, removed and cut.")
    ] = False,
    all_users: Annotated[bool, typer.Option("--all", help="All users of the bundle; needs --out.")] = False,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Users in a text file with one id per line, or a column of CSV or Parquet; needs --out."
        ),
    ] = None,
    users_column: Annotated[
        str | None, typer.Option(help="Column of --users with the ids. Default: user, or the only column.")
    ] = None,
    unknown: Annotated[
        str, typer.Option(help="Users who are not in the bundle: answer (without a history) or skip.")
    ] = "answer",
    out: Annotated[
        Path | None, typer.Option(help="Write the slates to this file: .parquet, .csv or .jsonl.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Recommend items to a user, to anyone with this history, or to all users in a file."""
    if all_users or users is not None or out is not None:
        one_user = {"--user": user, "--history": history, "--like": like or None, "--trace": trace or None}
        check_batch_options(
            all_users, users, out, [name for name, one in one_user.items() if one is not None]
        )
        assert out is not None
        recommend_to_many(bundle, users, users_column, out, k, seed, unknown, force, json)
        return
    recommender = load_recommender(bundle)
    request = as_request(recommender.catalog, user, history, like or [], k, seed)
    slate = recommender.recommend(request)
    items = recommender.recommendations(slate)
    given = request.history or ()
    missing = [one for one in given if recommender.catalog.vocabulary.row(one) < 0]
    answer = {
        "user": user,
        "known_user": user is not None and recommender.users.row(user) >= 0,
        "model": {"name": recommender.about.name, "version": recommender.about.version},
        "ignored": len(missing),
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
    if missing:
        echo(
            f"{len(missing)} of {len(given)} items of the history are not in the catalogue and were ignored, "
            f"the first is {missing[0]!r}",
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


def as_request(
    catalog: Catalog, user: str | None, history: str | None, like: Sequence[str], k: int | None, seed: int
) -> Request:
    """The request of these command-line options."""
    if history is None and not like:
        return Request(user, None, k, seed=seed)
    liked = [catalog.vocabulary.id(find_item(catalog, text)) for text in like]
    return Request(user, [*find_history(catalog, history or ""), *liked], k, seed=seed)


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
