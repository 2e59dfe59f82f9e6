"""Live users of a service: their events and states are open while it runs."""

import hashlib
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shortlist.errors import ArtifactError, VersionMismatch
from shortlist.pipeline import Recommender
from shortlist.pipeline.live.states import live_states
from shortlist.serve.log import LOGGER
from shortlist.state import EventLog, StateSettings, UserStateStore
from shortlist.state.events.archive import EVENTS

SNAPSHOT = "snapshot-"


@dataclass(frozen=True)
class LiveTo:
    """How live users are kept: without a folder their events are gone when the service stops."""

    folder: str | None = None
    settings: StateSettings = field(default_factory=StateSettings)


def now_ms() -> int:
    """The time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@contextmanager
def live_recommender(recommender: Recommender, to: LiveTo | None) -> Iterator[Recommender]:
    """The recommender with live users inside the block; without them if `to` is None."""
    if to is None:
        yield recommender
    elif to.folder is None:
        yield recommender.live(to.settings)
    else:
        with _kept(recommender, Path(to.folder), to.settings) as states:
            yield recommender.live(states=states)


@contextmanager
def _kept(recommender: Recommender, folder: Path, settings: StateSettings) -> Iterator[UserStateStore]:
    """States from the event log in a folder, with a snapshot from the last stop.

    A snapshot is there only while nothing runs: a user who is forgotten is in no old one. Without it, or with that of
    another bundle, the state of a user is computed from the log when it is needed. Users who have passed the threshold
    get vectors of their own, with a snapshot or without.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with EventLog(folder / EVENTS) as log:
        states = live_states(recommender, settings, log)
        snapshot = folder / f"{SNAPSHOT}{bundle_key(recommender)}"
        if snapshot.is_dir():
            _restore(states, snapshot)
        for old in folder.glob(f"{SNAPSHOT}*"):
            shutil.rmtree(old)
        if states.model is not None:
            states.review()  # fits vectors, so it is for the start, not for a request
        yield states
        if states.model is not None:
            states.snapshot(snapshot)


def bundle_key(recommender: Recommender) -> str:
    """A name of the weights and histories that states were computed with."""
    if recommender.about.version:
        return recommender.about.version
    digest = hashlib.sha256(f"{recommender.users.fingerprint} {recommender.about.ends}".encode())
    for part in (recommender.histories.starts, recommender.histories.items):
        digest.update(part.contiguous().numpy().data)
    return digest.hexdigest()[:12]


def _restore(states: UserStateStore, snapshot: Path) -> None:
    try:
        states.restore(snapshot)
    except (VersionMismatch, ArtifactError) as error:
        LOGGER.warning("states are computed from the events", extra={"fields": {"cause": str(error)}})
