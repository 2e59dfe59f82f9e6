"""The log of one round: written by the real logger, joined with its feedback, and read back."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Vocabulary
from shortlist.errors import ArtifactError
from shortlist.feedback import (
    FullStageLogger,
    LabelRules,
    LoggedRequests,
    LogReader,
    LogSettings,
    RequestMeta,
    Sampling,
    append_events,
    concat,
    join_feedback,
    labelled,
    request_id,
)
from shortlist.simulate.full_stage.cell_noise import cell_uniforms
from shortlist.simulate.full_stage.closed_loop.serve import Served
from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.closed_loop.world import LoopWorld

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
EVENT_MS = 60_000  # from a request to its events
FEEDBACK = 1000  # first stream of the cell noise, one per round
FIRST_ITEM, FIRST_USER = 1_000_000, 1  # ids of row 0


@dataclass(frozen=True)
class LoopLog:
    """Logs of rounds, each in a folder of its own under `root`."""

    root: Path
    n_users: int
    n_items: int
    sampling: Sampling | None = None

    @cached_property
    def items(self) -> Vocabulary:
        return Vocabulary.of(list(range(FIRST_ITEM, FIRST_ITEM + self.n_items)))

    @cached_property
    def users(self) -> Vocabulary:
        return Vocabulary.of(list(range(FIRST_USER, FIRST_USER + self.n_users)))

    def folder(self, number: int) -> Path:
        """The log of a round; rounds before the first that counts are negative."""
        return self.root / f"round{number:+04d}"

    def write(
        self, served: Served, y: NDArray[np.bool_], settings: LoopSettings, versions: tuple[int, ...]
    ) -> None:
        """Write the requests, and then the events of their shown items."""
        root, count = self.folder(served.number), len(served.users)
        times = START_MS + served.number * DAY_MS + np.arange(count)
        ids = [request_id(int(when), 0, row) for row, when in enumerate(times)]
        users = (served.users.cpu().numpy() + FIRST_USER).tolist()
        meta = RequestMeta(ids, times.tolist(), users, versions, (None, *settings.capacities[1:]))
        quiet = LogSettings(rotate_seconds=1e9)  # one part per round
        with FullStageLogger(root, self.items, self.users, quiet, self.sampling) as logger:
            logger.offer(served.trace, meta)
        shown = served.shown.cpu().numpy()
        append_events(
            root, _events(np.array(ids), times, shown, y), int(times[-1]) + EVENT_MS, writer="events"
        )

    def read(self, number: int) -> LoggedRequests:
        """The requests of a round with labels; a request that cannot be read is an error."""
        root, rules = self.folder(number), LabelRules()
        report = join_feedback(root, rules, START_MS + (number + 1) * DAY_MS)
        reader = LogReader(root)
        record = concat(list(labelled(reader, rules.version)))
        if reader.problems.counts or report.counts:
            raise ArtifactError(
                f"{root}: expected a log without problems, got {dict(reader.problems.counts)} and {report.explained}"
            )
        return record


def feedback(world: LoopWorld, served: Served) -> NDArray[np.bool_]:
    """Whether each shown item is liked [N, c]: one draw from r per request and item, the same for every arm."""
    users, shown = served.users, served.shown
    chances = world.utility[users].gather(1, shown).cpu().numpy()
    stream = FEEDBACK + served.number + 500
    drawn = cell_uniforms(world.seed, stream, np.arange(len(shown)), shown.cpu().numpy())
    return np.asarray(drawn < chances)


def _events(
    ids: NDArray[np.int64], times: NDArray[np.int64], shown: NDArray[np.int64], y: NDArray[np.bool_]
) -> dict[str, list[int] | list[str] | NDArray[np.int64]]:
    """An impression of every shown item and a play of every liked one."""
    request = np.repeat(np.arange(len(ids)), shown.shape[1])
    liked = np.flatnonzero(y.ravel())
    rows = np.concatenate([np.arange(shown.size), liked])
    return {
        "request_id": ids[request[rows]],
        "item_id": shown.ravel()[rows] + FIRST_ITEM,
        "event": ["impression"] * shown.size + ["play"] * len(liked),
        "event_ts_ms": times[request[rows]] + EVENT_MS,
    }
