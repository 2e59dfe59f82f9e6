"""What the weights of a log become in a data set: strengths of events, or 1 for every event."""

from shortlist.data.interactions import Interactions, check_weights
from shortlist.data.sources import options_of
from shortlist.errors import ConfigError

WEIGHTS = ("use", "implicit")


def weights_mode(weights: str | None, format: str) -> str:
    """The given mode, or the default: weights of a table are used, ratings of a built-in format are not."""
    if weights is None:
        return "use" if "columns" in options_of(format) else "implicit"
    if weights not in WEIGHTS:
        raise ConfigError(f"--weights: expected {' or '.join(WEIGHTS)}, got {weights!r}")
    return weights


def stored_weights(events: Interactions, mode: str, where: str) -> tuple[Interactions, str]:
    """The events as a data set stores them, and a sentence on their weights; empty where all are 1.

    With "use" every weight must be above 0; `where` begins the message. With "implicit" every event gets weight 1.
    """
    low, high = (float(one) for one in (events.weights.min(), events.weights.max()))
    if low == high == 1.0:
        return events, ""
    if mode == "implicit":
        return (
            events.unweighted(),
            f"not used: every event counts once; --weights use follows those of the log ({low:g} to {high:g})",
        )
    check_weights(events.weights, f"{where}: weights")
    if low == high:
        return events, f"{low:g} for every event"
    return events, f"{low:g} to {high:g}, used as strengths; --weights implicit counts every event once"
