"""The stages after the one under study: fixed scores, or random choice by the Plackett-Luce model.

Items are columns 0..n-1, and a column is the item id of a tie: of two equal scores the smaller id is kept.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Items = tuple[int, ...]  # a set of items, ascending


class Downstream(Protocol):
    """Later stages of a funnel; stage t keeps min(caps[t], number of items) items of its input."""

    @property
    def caps(self) -> Items:
        """Items that every stage keeps, the last number is c_T."""
        ...

    @property
    def n_items(self) -> int:
        """Number of items that the stages can score."""
        ...

    def outcomes(self, stage: int, items: Items) -> dict[Items, float]:
        """Every set that the stage can keep of `items`, with its probability."""
        ...

    def draws(self, count: int, seed: int) -> "Draws":
        """Realisations of all stages, shared by every candidate set that is evaluated with them."""
        ...


@dataclass(frozen=True, eq=False)
class Draws:
    """Realisations of later stages: `ranks` [draws, stages, n], 0 is best, without ties."""

    ranks: Ints
    caps: Items

    def survivors(self, items: Ints) -> Ints:
        """The items that all stages keep of the sets `items` [..., c]: [draws, ..., c_T], in no order."""
        return self.one_each(np.broadcast_to(items, (len(self.ranks), *items.shape)))

    def one_each(self, items: Ints) -> Ints:
        """The same with own sets for every realisation [draws, ..., c]."""
        for stage, cap in enumerate(self.caps):
            if cap < items.shape[-1]:
                best = np.argpartition(_take(self.ranks[:, stage], items), cap - 1, axis=-1)[..., :cap]
                items = np.take_along_axis(items, best, axis=-1)
        return items


@dataclass(frozen=True, eq=False)
class ScoreStages:
    """Stages that keep the items with the highest fixed scores [stages, n]."""

    scores: Floats
    caps: Items

    def __post_init__(self) -> None:
        _check(self.scores, self.caps)

    @property
    def n_items(self) -> int:
        """Number of items that the stages can score."""
        return int(self.scores.shape[1])

    def outcomes(self, stage: int, items: Items) -> dict[Items, float]:
        """The one set that the stage keeps."""
        best = sorted(items, key=lambda item: (-self.scores[stage, item], item))
        return {tuple(sorted(best[: self.caps[stage]])): 1.0}

    def draws(self, count: int, seed: int) -> Draws:
        """One realisation: nothing is random."""
        return Draws(_ranks(self.scores[None]), self.caps)


@dataclass(frozen=True, eq=False)
class PlackettLuceStages:
    """Stages that choose items one after another with odds exp(logits [stages, n]), independently of each other.

    The chosen set is the top of logits plus standard Gumbel noise.
    """

    logits: Floats
    caps: Items

    def __post_init__(self) -> None:
        _check(self.logits, self.caps)

    @property
    def n_items(self) -> int:
        """Number of items that the stages can score."""
        return int(self.logits.shape[1])

    def outcomes(self, stage: int, items: Items) -> dict[Items, float]:
        """Every set of the stage's size: the recursion adds one choice at a time, in any order."""
        own = self.logits[stage, list(items)]
        odds = dict(zip(items, np.exp(own - own.max()).tolist(), strict=True))
        found: dict[Items, float] = {(): 1.0}
        for _ in range(min(self.caps[stage], len(items))):
            found = _one_choice(found, odds)
        return found

    def draws(self, count: int, seed: int) -> Draws:
        """`count` realisations of the Gumbel noise."""
        if count < 1:
            raise ConfigError(
                f"draws: expected at least 1 realisation, got {count}; raise the number of draws"
            )
        noise = np.random.default_rng(seed).gumbel(size=(count, *self.logits.shape))
        return Draws(_ranks(self.logits + noise), self.caps)


def _one_choice(found: dict[Items, float], odds: dict[int, float]) -> dict[Items, float]:
    """The distribution of the chosen set after one more choice."""
    longer: dict[Items, float] = {}
    for chosen, probability in found.items():
        rest = [item for item in odds if item not in chosen]
        total = sum(odds[item] for item in rest)
        for item in rest:
            key = tuple(sorted((*chosen, item)))
            longer[key] = longer.get(key, 0.0) + probability * odds[item] / total
    return longer


def _ranks(scores: Floats) -> Ints:
    """Places from 0 along the last axis, best first; ties by item id ascending."""
    return np.argsort(np.argsort(-scores, axis=-1, kind="stable"), axis=-1, kind="stable")


def _take(ranks: Ints, items: Ints) -> Ints:
    """The ranks [draws, n] of items [draws, ..., c]."""
    flat = items.reshape(len(items), -1)
    return np.take_along_axis(ranks, flat, axis=1).reshape(items.shape)


def _check(scores: Floats, caps: Items) -> None:
    if scores.ndim != 2 or len(scores) != len(caps) or not caps or min(caps) < 1:
        raise ConfigError(
            f"downstream: expected scores [stages, n] and one positive capacity per stage, got shape "
            f"{list(scores.shape)} and capacities {caps}; give one row of scores per capacity"
        )
    if not np.isfinite(scores).all():
        raise ConfigError("downstream: expected finite scores, got NaN or infinity; leave such items out")
