"""The options of verbs that answer from new events of users: --events and --event."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from shortlist.cli.console.arguments import source_of
from shortlist.data import Catalog
from shortlist.errors import ConfigError
from shortlist.pipeline import Recommender
from shortlist.pipeline.find_item import find_item
from shortlist.pipeline.live.read import ReadEvents, read_live_events
from shortlist.pipeline.live.rejections import bundle_warnings, reason
from shortlist.state import ApplyReport, RejectedEvent, UserEvent

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


NO_FILE = ReadEvents([], lambda rows: [])


@dataclass(frozen=True, eq=False)
class LiveAnswer:
    """A recommender with the events of the options, and what became of them; None without such options."""

    recommender: Recommender
    report: ApplyReport | None = None
    events: Sequence[UserEvent] = ()  # those of the file, then those of --event
    read: ReadEvents = NO_FILE
    now_ms: int = 0

    @property
    def facts(self) -> dict[str, Any]:
        """What a JSON answer says of the events."""
        if self.report is None:
            return {}
        rejected = self.described(self.report.rejected)
        return {"events": {**vars(self.report), "rejected": rejected, "warnings": self.warnings}}

    @property
    def notes(self) -> list[str]:
        """What a reader should know of the events."""
        if self.report is None:
            return []
        report = self.report
        notes = [*self.warnings, f"new events applied: {report.applied:,}"]
        if report.duplicates:
            notes.append(f"events that were there already: {report.duplicates:,}")
        for first in self.described(report.rejected[:1]):
            count = f"events left out: {len(report.rejected):,} of {len(self.events):,}"
            notes.append(f"{count}, the first is {first['where']}: {first['detail']}")
        return notes

    @property
    def warnings(self) -> list[str]:
        """What of the bundle makes live events useless."""
        return bundle_warnings(self.recommender, self.now_ms)

    def described(self, rejected: Sequence[RejectedEvent]) -> list[dict[str, Any]]:
        """Rejected events with their place and with what came."""
        of_file = len(self.read.events)
        lines = iter(self.read.locate([one.index for one in rejected if one.index < of_file]))
        return [
            {
                **vars(one),
                "detail": reason(one, self.events[one.index], self.recommender, self.now_ms),
                "where": next(lines) if one.index < of_file else f"--event {one.index - of_file + 1}",
            }
            for one in rejected
        ]


def with_events(
    recommender: Recommender, file: str | None, items: Sequence[str], request: Mapping[str, object]
) -> LiveAnswer:
    """The recommender with the events of --events, then those of --event.

    `request` has the options of one user, none for many users.
    """
    if items or (request and file is not None):
        _check_one_user("--event" if items else "--events", request)
    if file is None and not items:
        return LiveAnswer(recommender)
    live, now_ms = recommender.live(), time.time_ns() // 1_000_000
    read = NO_FILE if file is None else read_live_events(source_of([file]))
    events = [*read.events, *_own_events(recommender.catalog, items, str(request.get("--user")), now_ms)]
    answer = LiveAnswer(live, live.apply(events, now_ms), events, read, now_ms)
    _check_own(answer)
    return answer


def _own_events(catalog: Catalog, items: Sequence[str], user: str, now_ms: int) -> list[UserEvent]:
    """The events of --event, a millisecond apart."""
    ids = catalog.vocabulary.ids_of([find_item(catalog, text) for text in items])
    return [UserEvent(user, item, now_ms + place, f"--event {place}") for place, item in enumerate(ids)]


def _check_own(answer: LiveAnswer) -> None:
    """Refuse an --event that would change nothing."""
    assert answer.report is not None
    own = [one for one in answer.report.rejected if one.index >= len(answer.read.events)]
    for first in answer.described(own[:1]):
        raise ConfigError("; ".join([f"{first['where']}: {first['detail']}", *answer.warnings]))


def _check_one_user(events: str, request: Mapping[str, object]) -> None:
    """Refuse events that the answer to this request would not use."""
    if request.get("--user") is None:
        raise ConfigError(
            f"{events} needs --user ID; for a history without a user use {_without_a_user(request)}"
        )
    for name in ("--history", "--like"):
        if request.get(name):
            raise ConfigError(f"{name} replaces the history that {events} continues; leave one of them out")


def _without_a_user(request: Mapping[str, object]) -> str:
    return "--like ITEM" if "--like" in request else "--history IDS"
