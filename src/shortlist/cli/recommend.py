"""shortlist recommend: the slate of one user, or of many in a file."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, cast

import typer

from shortlist.artifact.as_json import as_json
from shortlist.cli.console.arguments import source_of
from shortlist.cli.console.frame import (
    Bundle,
    Json,
    Seed,
    command,
    emit,
    errors_to_exit_codes,
    progress,
    resumable,
)
from shortlist.cli.console.live_options import EventsFile, NewEvents, with_events
from shortlist.cli.console.log_options import LogFolder, LogSet, log_to, opened_log
from shortlist.cli.console.output import Console, Table, echo, echo_lines
from shortlist.data import Catalog
from shortlist.errors import ConfigError
from shortlist.feedback.write.request_log import LogTo, RequestLog
from shortlist.grammar import Pipeline
from shortlist.pipeline import Recommendation, Recommender, Slate, load_recommender
from shortlist.pipeline.batch import Written, read_user_ids
from shortlist.pipeline.batch.formats import FORMATS
from shortlist.pipeline.batch.job import Observer
from shortlist.pipeline.batch.parts import parts_folder
from shortlist.pipeline.batch.users import UnknownUsers
from shortlist.pipeline.batch.write import check_output
from shortlist.pipeline.find_item import find_history, find_item
from shortlist.pipeline.recommender import Request

History = Annotated[
    str | None, typer.Option(help="Item ids or whole titles, oldest first, separated by commas.")
]

COLUMNS = ("rank", "item", "title", "category", "score", "nominated by")
OPTIONAL = ("title", "category")  # left out where no item has one


@errors_to_exit_codes()
def recommend(
    bundle: Bundle,
    user: Annotated[
        str | None, typer.Option(help="User id; an unknown user is answered without a history.")
    ] = None,
    history: History = None,
    like: Annotated[
        list[str] | None,
        typer.Option(help="An item to start from, by id or title; repeatable, the oldest first."),
    ] = None,
    events: EventsFile = None,
    event: NewEvents = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Number of items.", min=1, max=1000)] = None,
    seed: Seed = 0,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show how many candidates every stage kept, removed and cut.")
    ] = False,
    all_users: Annotated[bool, typer.Option("--all", help="All users of the bundle; needs --out.")] = False,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Users in a file with one id per line, or a column of CSV, JSON lines or Parquet; - for stdin; "
            "needs --out."
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
    log: LogFolder = None,
    log_set: LogSet = None,
    json: Json = False,
) -> None:
    """Recommend items to a user, to anyone with this history, or to all users in a file."""
    to = log_to(log, log_set)
    if all_users or users is not None or out is not None:
        one_user: dict[str, object] = {
            "--user": user,
            "--history": history,
            "--like": like or None,
            "--trace": trace or None,
        }
        one_user |= {"--event": event or None}
        _check_options(all_users, users, out, [name for name, one in one_user.items() if one is not None])
        assert out is not None
        if str(users) == events == "-":
            raise ConfigError(
                "recommend: --users and --events cannot both read stdin; put one of them in a file"
            )
        _recommend_to_many(bundle, users, users_column, out, k, seed, unknown, force, to, json, events)
        return
    options = {"--user": user, "--history": history, "--like": like}
    live = with_events(load_recommender(bundle), events, event or [], options)
    recommender = live.recommender
    request = as_request(recommender.catalog, user, history, like or [], k, seed)
    with opened_log(to, recommender) as opened:
        slate = recommender.recommend(request)
        logged = _logged(opened, recommender, request, slate)
    items = recommender.recommendations(slate)
    answer = {
        **request_facts(recommender, request),
        **live.facts,
        **logged,
        "items": items,
        "degraded": [{"stage": note.stage, "cause": note.detail} for note in slate.trace.degraded],
        "stages": slate.trace.counts(),
    }
    if json:
        emit(answer)
        return
    console = Console()
    for note in (
        *live.notes,
        *request_notes(recommender, request),
        *(f"logged as {one}" for one in logged.values()),
    ):
        echo(note, err=True)
    if not items:
        echo(
            "the slate is empty; --trace shows what each stage nominated and removed, "
            "and a pool with `popular` answers users without a history",
            err=True,
        )
    console.print(slate_table(recommender, items))
    if trace:
        echo_lines(str(slate.trace))


def _logged(
    log: RequestLog | None, recommender: Recommender, request: Request, slate: Slate
) -> dict[str, str]:
    """Log one request; its id, if it is logged."""
    if log is None:
        return {}
    ids = log.offer(slate.trace, recommender.prepared(request), [request.user], [request.history], wait=True)
    return {"log_id": ids[0]} if ids else {}


def as_request(
    catalog: Catalog, user: str | None, history: str | None, like: Sequence[str], k: int | None, seed: int
) -> Request:
    """The request of these command-line options."""
    if history is None and not like:
        return Request(user, None, k, seed=seed)
    liked = [catalog.vocabulary.id(find_item(catalog, text)) for text in like]
    return Request(user, [*find_history(catalog, history or ""), *liked], k, seed=seed)


def request_facts(recommender: Recommender, request: Request) -> dict[str, object]:
    """What a JSON answer says of its request and of the model."""
    user = request.user
    return {
        "user": user,
        "known_user": recommender.knows(user),
        "model": {"name": recommender.about.name, "version": recommender.about.version},
        "ignored": len(_ignored(recommender, request)),
    }


def request_notes(recommender: Recommender, request: Request) -> list[str]:
    """What of the request the bundle does not know."""
    notes, user, ignored = [], request.user, _ignored(recommender, request)
    if user is not None and not recommender.knows(user):
        without = " without a history" if request.history is None else " with this history"
        notes.append(f"user {user!r} is unknown; this is the slate of a user{without}")
    if ignored:
        notes.append(
            f"{len(ignored)} of {len(request.history or ())} items of the history are not in the catalogue and were "
            f"ignored, the first is {ignored[0]!r}"
        )
    return notes


def _ignored(recommender: Recommender, request: Request) -> list[int | str]:
    return [one for one in request.history or () if recommender.catalog.vocabulary.row(one) < 0]


def slate_table(recommender: Recommender, items: Sequence[Recommendation]) -> Table:
    """A slate as a table."""
    table = Table(title=recommender.about.name, title_justify="left")
    rows = [_cells(one) for one in items]
    shown = [name for name in COLUMNS if name not in OPTIONAL or any(row[name] for row in rows)]
    for name in shown:
        table.add_column(name, justify="right" if name in ("rank", "score") else "left")
    for row in rows:
        table.add_row(*(row[name] for name in shown))
    return table


def _cells(one: Recommendation) -> dict[str, str]:
    score = "" if one.score is None else f"{one.score:.3f}"
    title = "" if one.title == str(one.item_id) else one.title
    values = (one.rank, one.item_id, title, one.category, score, ", ".join(one.nominators))
    return dict(zip(COLUMNS, map(str, values), strict=True))


def _check_options(
    all_users: bool, users: Path | None, out: Path | None, for_one_user: Sequence[str]
) -> None:
    """Refuse options that do not go together, before anything is loaded."""
    if all_users and users is not None:
        raise ConfigError("recommend: --all and --users exclude each other; leave one out")
    if not all_users and users is None:
        raise ConfigError("recommend: --out needs --all, or --users FILE")
    if for_one_user:
        raise ConfigError(
            f"recommend: {', '.join(for_one_user)} is for one user; leave out --all and --users"
        )
    if out is None:
        raise ConfigError(
            f"recommend: many users need --out FILE, which ends in {', '.join(FORMATS)}; "
            "for one user type --user ID"
        )


def _recommend_to_many(
    bundle: Path,
    users: Path | None,
    users_column: str | None,
    out: Path,
    k: int | None,
    seed: int,
    unknown: str,
    force: bool,
    to: LogTo | None,
    json: bool,
    events: str | None,
) -> None:
    """Write the slates to a file and print what was written."""
    began = time.perf_counter()
    check_output(out, force)
    ids = None if users is None else read_user_ids(source_of([str(users)]), users_column)
    live = with_events(load_recommender(bundle), events, [], {})
    recommender = live.recommender
    parts = nullcontext() if to else resumable(parts_folder(out))
    with parts, progress() as show, opened_log(to, recommender) as log:
        written = recommender.write_recommendations(
            out,
            ids,
            k,
            seed=seed,
            unknown=cast(UnknownUsers, unknown),
            force=force,
            progress=show,
            observe=None if log is None else _observer(log),
        )
    seconds = time.perf_counter() - began
    counts = {} if log is None else {"log": as_json(log.counts)}
    if json:
        emit({**as_json(written), **live.facts, **counts, "seconds": seconds})
        return
    for line in (*live.notes, *_notes(written, unknown)):
        echo(line, err=True)
    echo(f"{written.users:,} users, {written.rows:,} rows written to {out} in {seconds:.1f} s")
    if log is not None:
        echo(
            f"{log.counts.written:,} requests logged; next: {command('log', 'inspect', to.root if to else '')}"
        )


def _observer(log: RequestLog) -> Observer:
    def observe(pipeline: Pipeline, slate: Slate, users: list[int | str | None]) -> None:
        log.offer(slate.trace, pipeline, users, wait=True)

    return observe


def _notes(written: Written, unknown: str) -> list[str]:
    """What the reader of the file should know."""
    done = "answered as users without a history" if unknown == "answer" else "left out"
    notes = {
        f"users who are not in the bundle and were {done}: {written.unknown:,}": written.unknown,
        f"ids given more than once, answered once: {written.repeated:,}": written.repeated,
        f"users with an empty slate: {written.empty:,}": written.empty,
        f"users answered by an earlier run that was stopped: {written.resumed:,}": written.resumed,
    }
    skipped = {
        f"users for whom {stage} failed and was skipped: {n:,}": n for stage, n in written.degraded.items()
    }
    return [text for text, count in (notes | skipped).items() if count]
