"""The protocol that fits a log, with the reason: `--split auto`."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from shortlist.data.held_out import HeldOut
from shortlist.data.interactions import Interactions
from shortlist.data.split import PROTOCOLS, SplitSettings, check_protocol, global_time
from shortlist.errors import ConfigError, DataError

AUTO = "auto"
MIN_REQUESTS = 100  # held-out users that a protocol must have to be preferred
RETURNING = 0.5  # least share of a window's users with earlier events, for a split by time
LONG = 15  # events of a long history
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
    if protocol != AUTO:
        check_protocol(protocol)
        return ChosenSplit({"protocol": protocol, **_seed(protocol, seed), **_known(protocol, given)})
    name, reason = _chosen(events, clock)
    return ChosenSplit({"protocol": name, **_seed(name, seed), **_known(name, given)}, f"{name}: {reason}")


def _chosen(events: Interactions, clock: str) -> tuple[str, str]:
    """A protocol and the reason for it."""
    lengths = events.lengths[events.lengths > 0]
    users, median = len(lengths), float(np.median(lengths)) if len(lengths) else 0.0
    share = _returning(events) if clock == "ms" else 0.0
    if share >= RETURNING:
        return "global-time", (
            f"the log has times, and {share:.0%} of the users of its last tenth to fifth have earlier events; training "
            "uses the past only, as in service"
        )
    why = (
        "the log has no times"
        if clock != "ms"
        else f"only {share:.0%} of the users of its last part have earlier events"
    )
    long = float(np.mean(lengths >= LONG)) if users else 0.0
    if users >= MIN_USERS and long >= 0.95:
        return "half-history", (
            f"{why}, and {long:.0%} of {users:,} users have {LONG} events or more; whole users are held out"
        )
    enough = int(np.sum(lengths >= 3))
    if enough >= min(MIN_REQUESTS, max(users / 2, 1)) or (enough and not _splits_by_time(events)):
        return "leave-last-out", (
            f"{why}; the median user has {median:g} events, and the last two events of {enough:,} of {users:,} users "
            "can be held out; every user is trained on"
        )
    if _splits_by_time(events):
        what = "times" if clock == "ms" else "rows of the file, taken as the order of time,"
        return (
            "global-time",
            f"only {enough:,} of {users:,} users have 3 events or more; {what} are split instead",
        )
    return "leave-last-out", (
        f"nothing can be measured: none of {users:,} users has 3 events or more, and the {len(events):,} events have "
        "too few different times to be split by time"
    )


def _returning(events: Interactions) -> float:
    """The smaller share of users with a history among those of the validation and the test window."""
    if not _splits_by_time(events):
        return 0.0
    split = global_time(events)
    return min(_with_history(split.valid), _with_history(split.test))


def _with_history(window: HeldOut) -> float:
    returning = int(np.sum(window.history_lengths() > 0))
    return returning / len(window) if returning >= MIN_REQUESTS else 0.0


def _splits_by_time(events: Interactions) -> bool:
    try:
        return min(len(global_time(events).valid), len(global_time(events).test)) > 0
    except DataError:
        return False


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
