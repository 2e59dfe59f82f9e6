"""The protocol that fits a log, with the reason: `--split auto`."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from shortlist.data.interactions import Interactions
from shortlist.data.split import PROTOCOLS, Split, SplitSettings, check_protocol, global_time
from shortlist.errors import ConfigError, DataError

AUTO = "auto"
MIN_REQUESTS = 100  # held-out users that a protocol must have to be preferred
RETURNING = 0.5  # least share of a window's users with earlier events, for a split by time
LONG = 15  # events of a long history
LONG_SHARE = 0.95  # least share of users with long histories, for a split by users
MIN_USERS = 1000  # users that a split by users needs: a tenth of them is the test part


@dataclass(frozen=True)
class ChosenSplit:
    """Settings of a split and why they were chosen; no reason where the user chose."""

    settings: SplitSettings
    reason: str = ""


def choose_split(
    events: Interactions, clock: str, protocol: str = AUTO, seed: int = 0, **settings: Any
) -> ChosenSplit:
    """The split of a protocol, or with "auto" the one that fits the log; `settings` that are None are left out."""
    given = {name: value for name, value in settings.items() if value is not None}
    check_protocol(protocol, AUTO)
    if protocol != AUTO:
        return ChosenSplit({"protocol": protocol, **_seed(protocol, seed), **_known(protocol, given)})
    name, reason = _chosen(events, clock)
    return ChosenSplit({"protocol": name, **_seed(name, seed), **_known(name, given)}, f"{name}: {reason}")


def _chosen(events: Interactions, clock: str) -> tuple[str, str]:
    """A protocol and the reason for it."""
    lengths = events.lengths[events.lengths > 0]
    users, enough, long = len(lengths), int(np.sum(lengths >= 3)), int(np.sum(lengths >= LONG))
    by_time = _split_by_time(events)
    returning, why = _returning(by_time, clock)
    if not why:
        return "global-time", f"{returning}; training uses the past only, as in service"
    if users >= MIN_USERS and long >= LONG_SHARE * users:
        return "half-history", (
            f"{why}, and {long:,} of {users:,} users have {LONG} events or more; whole users are held out"
        )
    if enough >= min(MIN_REQUESTS, max(users / 2, 1)) or (enough and by_time is None):
        return "leave-last-out", (
            f"{why}; the median user has {np.median(lengths):g} events, and the last two events of {enough:,} of "
            f"{users:,} users can be held out; every user is trained on"
        )
    if by_time is not None:
        what = "times" if clock == "ms" else "rows of the file, taken as the order of time,"
        few = f"only {enough:,} of {users:,} users have 3 events or more"
        return "global-time", f"{few}; {what} are split instead"
    return "leave-last-out", (
        f"nothing can be measured: none of {users:,} users has 3 events or more, and the {len(events):,} events have "
        "too few different times to be split by time"
    )


def _returning(by_time: Split | None, clock: str) -> tuple[str, str]:
    """How many users of the time windows have earlier events; and why a split by time does not fit, if so."""
    if clock != "ms":
        return "", "the log has no times"
    if by_time is None:
        return "", "the events have too few different times"
    counts = [(int(np.sum(one.history_lengths() > 0)), len(one)) for one in (by_time.valid, by_time.test)]
    count, users = min(counts, key=lambda one: one[0] / one[1])
    fact = f"{count:,} of the {users:,} users of a held-out window of time have earlier events"
    if (fewest := min(one for one, _ in counts)) < MIN_REQUESTS:
        return fact, (
            f"a held-out window of time has {fewest:,} users with earlier events (at least {MIN_REQUESTS} are needed)"
        )
    return fact, "" if count >= RETURNING * users else f"only {fact}"


def _split_by_time(events: Interactions) -> Split | None:
    """The split by time; None if there are too few different times."""
    try:
        found = global_time(events)
    except DataError:
        return None
    return found if len(found.valid) and len(found.test) else None


def _seed(protocol: str, seed: int) -> Mapping[str, int]:
    return {"seed": seed} if protocol == "half-history" else {}


def _known(protocol: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, all of which the protocol must have."""
    known = [name for name in signature(PROTOCOLS[protocol]).parameters if name not in ("events", "seed")]
    for name in given:
        if name not in known:
            options = ", ".join(map(_option, known))
            raise ConfigError(
                f"split {protocol}: has no {_option(name)}; its options are {options}; --split names the protocol"
            )
    return given


def _option(name: str) -> str:
    """A setting as `shortlist data prepare` spells it."""
    return f"--{name}-share" if name in ("train", "valid") else f"--{name.replace('_', '-')}"
