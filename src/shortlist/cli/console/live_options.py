"""The options of verbs that answer from new events of users: --events and --event."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from shortlist.cli.console.arguments import source_of
from shortlist.errors import ConfigError
from shortlist.pipeline import Recommender
from shortlist.pipeline.find_item import find_item
from shortlist.pipeline.live.read import ReadEvents, read_live_events
from shortlist.state import ApplyReport, UserEvent

EventsFile = Annotated[
    str | None,
    typer.Option(
        "--events",
        metavar="FILE",
        help="New events of users, in CSV, JSON lines or Parquet with the columns user, item, time and perhaps "
        "event_id; - for stdin.",
    ),
]
NewEvents = Annotated[
    list[str] | None,
    typer.Option(
        "--event", metavar="ITEM", help="A new event of --user, by id or title; repeatable, oldest first."
    ),
]


@dataclass(frozen=True, eq=False)
class LiveAnswer:
    """A recommender with the events of the options, and what became of them; None without such options."""

    recommender: Recommender
    report: ApplyReport | None = None
    read: ReadEvents | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What a JSON answer says of the events."""
        if self.report is None:
            return {}
        rejected = [{**vars(one), "where": self._where(one.index)} for one in self.report.rejected]
        return {"events": {**vars(self.report), "rejected": rejected}}

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the events."""
        if self.report is None:
            return []
        report, total = self.report, 0 if self.read is None else len(self.read.events)
        notes = [f"new events applied: {report.applied:,}"]
        if report.duplicates:
            notes.append(f"events that were there already: {report.duplicates:,}")
        if report.rejected:
            first = report.rejected[0]
            count = f"events left out: {len(report.rejected):,} of {total:,}"
            notes.append(f"{count}, the first is {self._where(first.index)}: {first.detail}")
        return notes

    def _where(self, index: int) -> str:
        return "" if self.read is None else self.read.locate(index)


def with_events(
    recommender: Recommender, file: str | None, items: Sequence[str], request: Mapping[str, object]
) -> LiveAnswer:
    """The recommender with the events of --events, then those of --event; `request` has the options of one user."""
    if items:
        _check_one_user(request)
    if file is None and not items:
        return LiveAnswer(recommender)
    live, now_ms = recommender.live(), time.time_ns() // 1_000_000
    read = None if file is None else read_live_events(source_of([file]))
    given = [] if read is None else read.events
    own = [
        UserEvent(
            str(request["--user"]), recommender.catalog.vocabulary.id(row), now_ms + place, f"--event {place}"
        )
        for place, row in enumerate(find_item(recommender.catalog, text) for text in items)
    ]
    return LiveAnswer(live, live.apply([*given, *own], now_ms), read)


def _check_one_user(request: Mapping[str, object]) -> None:
    if request.get("--user") is None:
        raise ConfigError("--event needs --user ID; for a history without a user use --like ITEM")
    for name in ("--history", "--like"):
        if request.get(name):
            raise ConfigError(f"{name} replaces the history that --event continues; leave one of them out")
