"""Numbers of a diagnosis as text."""

from shortlist.metrics.estimate import Estimate

NOISE = 1e-12  # rounding error of sums of floating-point numbers


def percent(share: float | None) -> str:
    """A share in percent; a dash without one."""
    return "–" if share is None else f"{share:.1%}"


def with_interval(share: Estimate) -> str:
    """A share in percent with its interval, if there is one."""
    if share.low is None or share.high is None or share.mean is None:
        return percent(share.mean)
    return f"{share.mean:.1%} [{share.low:.1%}, {share.high:.1%}]"


def points(change: Estimate) -> str:
    """A change of a share in percentage points, with its interval if there is one."""
    if change.mean is None:
        return "no number"
    middle = f"{signed(change.mean)} points"
    if change.low is None or change.high is None:  # too few users, as a warning says once
        return middle
    return f"{middle} [{signed(change.low)}, {signed(change.high)}]"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: 1 user, 2 users."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def unbroken(text: str) -> str:
    """The same text on one line, with no-break spaces."""
    return text.replace(" ", "\u00a0")


def rises(change: Estimate) -> bool:
    """Whether the whole interval lies above 0."""
    return change.low is not None and change.low > NOISE


def falls(change: Estimate) -> bool:
    """Whether the whole interval lies below 0."""
    return change.high is not None and change.high < -NOISE


def listed(names: list[str]) -> str:
    """Names in a sentence: 'a', 'b' and 'c'."""
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" and {quoted[-1]}"


def signed(share: float) -> str:
    """A change in percentage points with its sign, without a unit."""
    hundred = round(100 * share, 1)
    return f"{hundred:+.1f}" if hundred else "0.0"
