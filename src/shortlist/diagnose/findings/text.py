"""Numbers of a diagnosis as people say them."""

from collections.abc import Mapping
from typing import Any

Told = Mapping[str, Any]

NOISE = 1e-12  # sums of floating-point numbers err by less


def percent(share: float | None) -> str:
    """A share of a hundred; a dash where there is none."""
    return "–" if share is None else f"{share:.1%}"


def around(one: Told) -> str:
    """A share with its interval, where there is one."""
    if one["low"] is None or one["mean"] is None:
        return percent(one["mean"])
    return f"{one['mean']:.1%} [{one['low']:.1%}, {one['high']:.1%}]"


def points(change: Told) -> str:
    """A change of a share in points of a hundred, with its interval where there is one."""
    if change["mean"] is None:
        return "no number"
    middle = f"{_signed(change['mean'])} points"
    if change["low"] is None:  # too few users, as a warning says once
        return middle
    return f"{middle} [{_signed(change['low'])}, {_signed(change['high'])}]"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things: 1 user, 2 users."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def unbroken(said: str) -> str:
    """The same words on one line, wherever they stand."""
    return said.replace(" ", "\u00a0")


def rises(change: Told) -> bool:
    """Whether the whole interval lies above 0."""
    return change["low"] is not None and change["low"] > NOISE


def falls(change: Told) -> bool:
    """Whether the whole interval lies below 0."""
    return change["high"] is not None and change["high"] < -NOISE


def listed(names: list[str]) -> str:
    """Names as a sentence has them: 'a', 'b' and 'c'."""
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" and {quoted[-1]}"


def _signed(share: float) -> str:
    hundred = round(100 * share, 1)
    return f"{hundred:+.1f}" if hundred else "0.0"
