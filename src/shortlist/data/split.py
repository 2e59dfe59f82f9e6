"""Train, validation and test splits of a log."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.data.blocks import mask_of, take
from shortlist.data.held_out import HeldOut, Positions
from shortlist.data.interactions import Interactions
from shortlist.errors import ConfigError, DataError, did_you_mean

SplitSettings = Mapping[str, str | int | float | bool]
MAX_LEFT_OUT = 0.05  # share of users or events that a split may leave out without a warning
REQUESTS = "requests"  # setting of a split: requests of each part that are measured, at most
SAMPLE_SEED = 83  # of the requests that are measured


@dataclass(frozen=True)
class LeftOut:
    """Users and events that a split uses neither for training nor for measuring."""

    users: int
    events: int
    all_users: int
    all_events: int

    @property
    def large(self) -> bool:
        """Whether more than 5 % of the users or of the events are left out."""
        return self.users > MAX_LEFT_OUT * self.all_users or self.events > MAX_LEFT_OUT * self.all_events


@dataclass(frozen=True, eq=False)
class Split:
    """Training events, validation requests and test requests; `settings` reproduce the split."""

    events: Interactions
    in_train: NDArray[np.bool_]  # [E] over `events`
    valid: HeldOut
    test: HeldOut
    settings: SplitSettings
    whole: "Split | None" = None  # the split with all its requests, if these are a sample

    def sampled(self, requests: int) -> "Split":
        """The same training events with at most `requests` random requests of each part.

        A smaller sample is part of a larger one. The others stay held out: they are neither trained on nor measured.
        """
        if requests < 1:
            raise ConfigError(f"split: requests must be 1 or more, got {requests}")
        whole = self.whole or self
        if max(len(whole.valid), len(whole.test)) <= requests:
            return whole
        valid, test = (_sample(one, requests) for one in (whole.valid, whole.test))
        return replace(
            whole, valid=valid, test=test, settings={**whole.settings, REQUESTS: requests}, whole=whole
        )

    @cached_property
    def train(self) -> Interactions:
        """The training events."""
        return self.events.where(self.in_train)

    @cached_property
    def left_out(self) -> LeftOut:
        """What is neither trained on nor measured; requests outside a sample count as measured."""
        if self.whole is not None:
            return self.whole.left_out
        edges = np.zeros(
            len(self.events) + 1, np.int64
        )  # +1 where the events of a request begin, -1 where they end
        for held_out in (self.valid, self.test):
            np.add.at(edges, held_out.starts, 1)
            np.add.at(edges, held_out.stops, -1)
        used = self.in_train | (edges[:-1].cumsum() > 0)
        users = int(np.count_nonzero(self.events.lengths))
        left = users - len(np.unique(self.events.users[used]))
        return LeftOut(left, len(used) - int(used.sum()), users, len(used))

    @property
    def warning(self) -> str:
        """What the split leaves out and what to choose instead, if that is more than 5 %; else empty."""
        left, name = self.left_out, self.settings["protocol"]
        if not left.large:
            return ""
        shorter = (
            f"; {self.settings['min_length']} is the least number of events"
            if "min_length" in self.settings
            else ""
        )
        return (
            f"the split {name} leaves out {left.users:,} of {left.all_users:,} users "
            f"({left.users / left.all_users:.0%}) and {left.events:,} of {left.all_events:,} events "
            f"({left.events / left.all_events:.0%}){shorter}: the measured model is not trained on them and no metric "
            "counts them; prepare the data with --split auto or leave-last-out, or with a lower --min-length"
        )


def half_history(
    events: Interactions,
    seed: int = 0,
    held_out: float = 0.1,
    min_length: int = 15,
    first_halves: bool = False,
) -> Split:
    """Split users 80/10/10: the first half of a held-out history is the input, the second half is relevant.

    Users with fewer than `min_length` events are left out. The cut lies after n // 2 + 1 events, and at least one event
    follows it. `first_halves` adds the first halves of held-out users to the training events, as the published code of
    the tree papers does.
    """
    _check_min_length(min_length)
    users = np.flatnonzero(events.lengths >= min_length)
    shuffled = np.random.default_rng(seed).permutation(users)
    count = _share(len(users), held_out, "half-history", min_length)
    test, valid, rest = shuffled[:count], shuffled[count : 2 * count], shuffled[2 * count :]
    train = _of_users(events, rest)
    if first_halves:
        train |= _first_half(events) & _of_users(events, shuffled[: 2 * count])
    settings = {"seed": seed, "held_out": held_out, "min_length": min_length, "first_halves": first_halves}
    return Split(
        events,
        train,
        _halves(events, np.sort(valid)),
        _halves(events, np.sort(test)),
        {"protocol": "half-history", **settings},
    )


def global_time(events: Interactions, train: float = 0.7, valid: float = 0.1) -> Split:
    """Split events by time 70/10/20: all training events and histories are older than the relevant events."""
    if not (train > 0 and valid > 0 and train + valid < 1):
        raise ConfigError(f"global-time: expected shares with 0 < train + valid < 1, got {train} and {valid}")
    ordered = np.sort(events.times)
    first, second = (_time_at(ordered, share) for share in (train, train + valid))
    if len(ordered) == 0 or not ordered[0] < first < second:
        raise DataError(
            "global-time: expected events at many different times, got too few; use leave-last-out"
        )
    return Split(
        events,
        events.times < first,
        _between(events, first, second),
        _between(events, second, int(ordered[-1]) + 1),
        {"protocol": "global-time", "train": train, "valid": valid},
    )


def leave_last_out(events: Interactions, min_length: int = 3) -> Split:
    """The last event of every user is for test, the one before it for validation, the rest for training."""
    _check_min_length(min_length)
    users = np.flatnonzero(events.lengths >= max(min_length, 3))
    if len(users) == 0:
        raise DataError(f"leave-last-out: expected users with {max(min_length, 3)} events or more, got none")
    start, stop = events.starts[users], events.starts[users + 1]
    train = np.ones(len(events), bool)
    train[np.concatenate([stop - 1, stop - 2])] = False
    return Split(
        events,
        train,
        HeldOut(events, start, stop - 2, stop - 1),
        HeldOut(events, start, stop - 1, stop),
        {"protocol": "leave-last-out", "min_length": min_length},
    )


PROTOCOLS: Mapping[str, Callable[..., Split]] = {
    "half-history": half_history,
    "global-time": global_time,
    "leave-last-out": leave_last_out,
}


def split(
    events: Interactions, protocol: str = "half-history", requests: int | None = None, **settings: Any
) -> Split:
    """The split of a protocol, given by name, with its settings; `requests` of each part are measured at most."""
    check_protocol(protocol)
    try:
        whole = PROTOCOLS[protocol](events, **settings)
    except TypeError as error:
        raise ConfigError(f"split {protocol}: {error}") from error
    return whole if requests is None else whole.sampled(requests)


def _sample(held_out: HeldOut, requests: int) -> HeldOut:
    """At most `requests` random requests, in order."""
    order = np.random.default_rng(SAMPLE_SEED).permutation(len(held_out))
    return held_out.take(np.sort(order[:requests]))


def check_protocol(protocol: str, *more: str) -> None:
    """Raise an error if no protocol has this name and it is not one of `more`."""
    known = (*more, *PROTOCOLS)
    if protocol not in known:
        raise ConfigError(
            f"--split: expected one of {', '.join(known)}, got {protocol!r}{did_you_mean(protocol, known)}"
        )


def _check_min_length(min_length: int) -> None:
    if min_length < 1:
        raise ConfigError(f"--min-length must be 1 or more, got {min_length}")


def _share(users: int, held_out: float, name: str, min_length: int) -> int:
    if not 0 < held_out < 0.5:
        raise ConfigError(f"{name}: held_out must lie between 0 and 0.5, got {held_out}")
    count = int(users * held_out)
    if count == 0:
        raise DataError(
            f"{name}: {users} users have {min_length} events or more, too few to hold out {held_out:.0%}; "
            "lower --min-length, or use --split leave-last-out (train: --protocol leave-last-out)"
        )
    return count


def _of_users(events: Interactions, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the events of some users [E]."""
    return take(mask_of(users, events.n_users), events.users)


def _time_at(ordered: NDArray[np.int64], share: float) -> int:
    """The time before which a share of the events lies."""
    # 0.7 + 0.1 is slightly less than 0.8 in floating point.
    return int(ordered[int(share * len(ordered) + 1e-6)]) if len(ordered) else 0


def _cuts(events: Interactions) -> Positions:
    """The position after each user's first half [U]."""
    lengths = events.lengths
    return events.starts[:-1] + np.minimum(lengths // 2 + 1, np.maximum(lengths - 1, 0))


def _first_half(events: Interactions) -> NDArray[np.bool_]:
    return np.arange(len(events)) < _cuts(events)[events.users]


def _halves(events: Interactions, users: NDArray[np.int64]) -> HeldOut:
    return HeldOut(events, events.starts[users], _cuts(events)[users], events.starts[users + 1])


def _between(events: Interactions, first: int, last: int) -> HeldOut:
    """Requests of users with events in [first, last); their histories end before `first`."""
    inside = (events.times >= first) & (events.times < last)
    before = np.bincount(events.users, weights=events.times < first, minlength=events.n_users).astype(
        np.int64
    )
    within = np.bincount(events.users, weights=inside, minlength=events.n_users).astype(np.int64)
    users = np.flatnonzero(within)
    starts = events.starts[users]
    return HeldOut(events, starts, starts + before[users], starts + before[users] + within[users])
