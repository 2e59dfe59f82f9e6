"""The slot-price rule: p (r - price), where the price is what one final slot is worth under the current candidates.

The number of final slots is fixed, so a candidate adds p r and displaces p times the value of a slot. Candidates with
a negative score fill the set with items that rarely survive.
"""

from collections.abc import Callable
from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import Floats, Items
from shortlist.metrics.funnel.selection import top_set

ITERATIONS = 4

Value = Callable[[Items], float]  # expected utility of a candidate set


@dataclass(frozen=True, eq=False)
class SlotPrice:
    """The best iterate by estimated utility: PRP is one of them, with scores r and no price."""

    scores: Floats  # [n]
    items: Items
    utility: float
    price: float | None
    utilities: tuple[float, ...]  # of PRP, then of every iterate: they need not grow


def priced(inclusion: Floats, relevance: Floats, price: float) -> Floats:
    """p (r - price) [n]."""
    return inclusion * (relevance - price)


def score_slot_price(
    inclusion: Floats,
    relevance: Floats,
    cap: int,
    slots: int,
    value: Value,
    iterations: int = ITERATIONS,
    price: float | None = None,
) -> SlotPrice:
    """Iterate: keep the `cap` best by p (r - price), then set the price to their utility over `slots` final slots.

    The first price is `price`, for example that of the logging policy, or else the one of PRP. The iteration can
    overshoot, so the best iterate is returned.
    """
    if slots < 1 or iterations < 0:
        raise ConfigError(
            f"slot price: expected slots >= 1 and iterations >= 0, got {slots} and {iterations}; raise them"
        )
    best = _iterate(relevance, cap, value, None)
    utilities, price = [best.utility], best.utility / slots if price is None else price
    for _ in range(iterations):
        found = _iterate(priced(inclusion, relevance, price), cap, value, price)
        best = found if found.utility > best.utility else best
        utilities, price = [*utilities, found.utility], found.utility / slots
    return SlotPrice(best.scores, best.items, best.utility, best.price, tuple(utilities))


def _iterate(scores: Floats, cap: int, value: Value, price: float | None) -> SlotPrice:
    items = top_set(scores, cap)
    return SlotPrice(scores, items, value(items), price, ())
