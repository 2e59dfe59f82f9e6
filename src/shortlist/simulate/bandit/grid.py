"""Systems of a grid over misspecification, numbers of nominators and policies."""

from collections.abc import Sequence

from shortlist.simulate.bandit.systems import GREEDY, UCB, System

RATIOS = (1, 1.25, 2, 2.5, 5, 10)  # features of the ranker over those of a nominator
POLICIES = (UCB, GREEDY)


def subsets(width: int, ratios: Sequence[float] = RATIOS) -> tuple[int, ...]:
    """Numbers of features of the nominators."""
    return tuple(max(1, round(width / ratio)) for ratio in ratios)


def grid_systems(width: int, nominators: Sequence[int], ratios: Sequence[float] = RATIOS) -> list[System]:
    """Every pair of policies with every number of nominators and of features, and single stages."""
    sizes = subsets(width, ratios)
    two_stage = [
        System(policy, count, subset, ranker)
        for count in nominators
        for subset in sizes
        for ranker in POLICIES
        for policy in POLICIES
    ]
    return [*two_stage, *(System(policy, 1, subset) for subset in sizes for policy in POLICIES)]
