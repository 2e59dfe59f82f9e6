"""Which candidates a stage keeps: PRP, the surrogate (7) of the paper, and GPRP solved by enumeration or local search.

The number of candidates is always fixed: without it GPRP may prefer a smaller set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import Downstream, Draws, Floats, Ints, Items
from shortlist.metrics.funnel.inclusion import check_exact, exact_inclusion, mc_utility

MIN_GAIN = 1e-12  # a swap must add more than rounding errors


@dataclass(frozen=True)
class Chosen:
    """A candidate set, items ascending, with its expected utility in the final slots."""

    items: Items
    utility: float


def top_set(scores: Floats, cap: int) -> Items:
    """The `cap` items with the highest scores, ascending; ties by item id ascending."""
    if not 1 <= cap <= len(scores):
        raise ConfigError(f"capacity: expected 1 to {len(scores)} items, got {cap}; lower the capacity")
    return tuple(sorted(np.argsort(-scores, kind="stable")[:cap].tolist()))


def prp_set(relevance: Floats, cap: int) -> Items:
    """Probability ranking principle: the `cap` items with the highest relevance."""
    return top_set(relevance, cap)


def score_gprp7(inclusion: Floats, relevance: Floats) -> Floats:
    """p r, equation (7) of the paper: it has no cost for the better item that a kept one displaces."""
    return inclusion * relevance


def expected_utility(items: Sequence[int], relevance: Floats, downstream: Downstream) -> float:
    """E[sum of relevance in the final slots], exact."""
    inclusion = exact_inclusion(items, downstream)
    return sum(probability * float(relevance[item]) for item, probability in inclusion.items())


def exact_gprp(relevance: Floats, downstream: Downstream, cap: int) -> Chosen:
    """The best candidate set of all sets of `cap` items; the first in lexical order of equal ones."""
    check_exact(len(relevance), downstream)
    sets = combinations(range(len(relevance)), cap)
    chosen = [Chosen(items, expected_utility(items, relevance, downstream)) for items in sets]
    return max(chosen, key=lambda one: one.utility)


def mc_gprp(
    relevance: Floats, draws: Draws, cap: int, starts: Sequence[Items] = (), sweeps: int = 3
) -> Chosen:
    """The best candidate set that swaps of one item find, with utilities of the shared realisations `draws`.

    The search starts at the best of PRP and `starts`, and ends when a sweep over all its items finds no better swap.
    """
    sets = np.array([prp_set(relevance, cap), *starts])
    best = sets[mc_utility(sets, relevance, draws).argmax()]
    for _ in range(sweeps):
        swapped = _sweep(best, relevance, draws)
        if (swapped == best).all():
            break
        best = swapped
    return Chosen(tuple(sorted(best.tolist())), float(mc_utility(best, relevance, draws)))


def _sweep(items: Ints, relevance: Floats, draws: Draws) -> Ints:
    """Every place in turn gets the item that serves the rest of the set best."""
    for place in range(len(items)):
        outside = np.setdiff1d(np.arange(len(relevance)), items)
        sets = np.repeat(items[None], len(outside) + 1, axis=0)
        sets[1:, place] = outside
        utility = mc_utility(sets, relevance, draws)
        items = sets[utility.argmax()] if utility.max() > utility[0] + MIN_GAIN else items
    return items
