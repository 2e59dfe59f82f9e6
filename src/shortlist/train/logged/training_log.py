"""Requests of a full-stage log that stages are trained on, as rows of a data set."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from shortlist.data import Interactions, Split
from shortlist.errors import DataError
from shortlist.feedback.nominations import NominationLog
from shortlist.feedback.record import Array
from shortlist.train.fingerprint import fingerprint
from shortlist.train.objectives.from_log import LeftOut, take_requests
from shortlist.train.objectives.stage_log import StageLog


@dataclass(frozen=True, eq=False)
class TrainingLog:
    """Requests with positive feedback in the order of time; users and items are rows of the data set."""

    log: StageLog
    time: Array  # int64 [R], milliseconds
    stages: tuple[str, ...]  # names of the stages that served most of the requests
    left_out: LeftOut
    notes: tuple[str, ...] = ()  # what was left out or may mislead, in sentences
    nominations: NominationLog | None = None  # who nominated the positives; None: not known

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def fingerprint(self) -> str | None:
        """A hash of the requests and their labels."""
        log = self.log
        columns = [log.user_id, log.offsets, log.item_id, log.stage, log.y, self.time]
        columns += [one for one in (log.scores, log.strength) if one is not None]
        return fingerprint(tuple(torch.from_numpy(np.ascontiguousarray(one)) for one in columns))

    def take(self, rows: Array) -> "TrainingLog":
        """Some of the requests, in this order."""
        return replace(self, log=take_requests(self.log, rows), time=self.time[rows])

    def newest(self, count: int) -> "TrainingLog":
        """The last `count` requests."""
        return self if count >= len(self) else self.take(np.arange(len(self) - count, len(self)))

    def before_held_out(self, split: Split) -> "TrainingLog":
        """The requests before the first held-out event of their user: others would show what is measured."""
        events, held_out = split.events, ~split.in_train
        first = np.full(events.n_users, np.iinfo(np.int64).max)
        np.minimum.at(first, events.users[held_out], events.times[held_out])
        rows = np.flatnonzero(self.time < first[self.log.user_id])
        return self if len(rows) == len(self) else self.take(rows)

    def earlier_events(self, events: Interactions) -> Interactions:
        """The events before the first request, for nominators that must not know the feedback."""
        past = events.where(events.times < self.time.min())
        if not len(past):
            raise DataError(
                f"training from a log: the data set has no event before the first request of the log at "
                f"{self.time.min()}; prepare the data with earlier events, or train on later requests of the log"
            )
        return past

    def history_ends(self, events: Interactions) -> Array:
        """The position in events of the first event of the user that is not before the request [R]."""
        starts, times = events.starts, events.times
        users = self.log.user_id
        found = [
            starts[user] + np.searchsorted(times[starts[user] : starts[user + 1]], time)
            for user, time in zip(users.tolist(), self.time.tolist(), strict=True)
        ]
        return np.array(found, np.int64)
