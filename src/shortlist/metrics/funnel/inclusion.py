"""Inclusion probabilities: how likely an item of a candidate set survives the later stages, exact or sampled.

Selection of a fixed number of items cannot be independent of the set: the probabilities of a set add up to c_T. One p
per item, P(item survives | item in A) averaged over sets A, is a marginal, and depends on the distribution of the sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import Downstream, Draws, Floats, Ints, Items

MAX_ITEMS = 10  # the recursion visits every subset
MAX_STAGES = 2
MAX_VALUES = 8_000_000  # ranks that are compared at a time


@dataclass(frozen=True, eq=False)
class Inclusion:
    """Sampled inclusion probabilities [n] with standard errors [n]."""

    probability: Floats
    error: Floats


def exact_inclusion(items: Sequence[int], downstream: Downstream) -> dict[int, float]:
    """P(item survives all later stages | the candidate set is `items`), exact, for at most 10 items and 2 stages."""
    check_exact(len(items), downstream)
    if len(set(items)) < len(items):
        raise ConfigError(f"inclusion: expected distinct items, got {list(items)}; remove the repeated ones")
    inclusion = dict.fromkeys(map(int, items), 0.0)
    for kept, probability in _final_sets(tuple(sorted(inclusion)), downstream).items():
        for item in kept:
            inclusion[item] += probability
    return inclusion


def mc_inclusion(items: Sequence[int], draws: Draws) -> Inclusion:
    """The same from realisations of the later stages; 0 for items outside the set."""
    count, n_items = len(draws.ranks), draws.ranks.shape[-1]
    kept = draws.survivors(np.asarray(items, np.int64))  # [draws, c_T]
    share = np.bincount(kept.ravel(), minlength=n_items) / count
    return Inclusion(share, np.sqrt(share * (1 - share) / count))


def mc_utility(items: Ints, relevance: Floats, draws: Draws) -> Floats:
    """Mean over realisations of the sum of relevance in the final slots, for sets [..., c]: [...]."""
    sets = items.reshape(-1, items.shape[-1])
    parts = np.array_split(sets, len(draws.ranks) * sets.size // MAX_VALUES + 1)
    utility = [relevance[draws.survivors(part)].sum(-1).mean(0) for part in parts]
    return np.concatenate(utility).reshape(items.shape[:-1])


def exact_uniform_marginal(downstream: Downstream, size: int) -> Floats:
    """p [n] over all sets of `size` items with equal weight, by enumeration."""
    check_exact(downstream.n_items, downstream)
    total, seen = np.zeros(downstream.n_items), np.zeros(downstream.n_items)
    for items in combinations(range(downstream.n_items), size):
        seen[list(items)] += 1
        total[list(items)] += [*exact_inclusion(items, downstream).values()]
    return total / np.maximum(seen, 1)


def mc_marginal(sets: Ints, draws: Draws) -> Floats:
    """p [n] from one logged candidate set per realisation, `sets` [draws, c]; 0 for items that no set holds."""
    n_items = draws.ranks.shape[-1]
    seen = np.bincount(sets.ravel(), minlength=n_items)
    kept = np.bincount(draws.one_each(sets).ravel(), minlength=n_items)
    return np.asarray(kept / np.maximum(seen, 1), np.float64)


def uniform_sets(n_items: int, size: int, count: int, seed: int) -> Ints:
    """Candidate sets [count, size], uniformly random."""
    return biased_sets(np.zeros(n_items), size, count, seed)


def biased_sets(logits: Floats, size: int, count: int, seed: int) -> Ints:
    """Candidate sets [count, size] of the Plackett-Luce model: likelier items have higher logits [n]."""
    noise = np.random.default_rng(seed).gumbel(size=(count, len(logits)))
    return np.argpartition(-(logits + noise), size - 1, axis=1)[:, :size]


def check_exact(n_items: int, downstream: Downstream) -> None:
    """Raise where the exact recursion would visit too many sets."""
    if n_items > MAX_ITEMS or len(downstream.caps) > MAX_STAGES:
        raise ConfigError(
            f"exact inclusion: expected at most {MAX_ITEMS} items and {MAX_STAGES} later stages, got {n_items} and "
            f"{len(downstream.caps)}; use the Monte Carlo version"
        )


def _final_sets(items: Items, downstream: Downstream) -> dict[Items, float]:
    """The distribution of the set that the last stage keeps."""
    sets = {items: 1.0}
    for stage in range(len(downstream.caps)):
        after: dict[Items, float] = {}
        for one, probability in sets.items():
            for kept, share in downstream.outcomes(stage, one).items():
                after[kept] = after.get(kept, 0.0) + probability * share
        sets = after
    return sets
