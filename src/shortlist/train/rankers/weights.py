"""How much each instance counts when a ranker learns for the candidates it will be given, and whether that is wise.

The weight of an instance is w = lambda + (1 - lambda) a / mean(a), where `a` says whether, or how likely, its item is
retrieved. With lambda = 1 every instance counts alike; with lambda = 0 and a in {0, 1} only what was retrieved does,
which is importance weighting with the exact ratio of the two distributions (two-stage bounds paper, section 4.2).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST = 20.0  # no instance counts more than so many
RIDGE = 1e-3
TURNS = 25  # of Newton's method


@dataclass(frozen=True, eq=False)
class Weights:
    """A weight for every instance, mean 1; `clipped` is the share that would have been larger."""

    values: Floats  # [m]
    clipped: float

    @property
    def effective(self) -> float:
        """The share of the instances that as many equal ones would be worth: (sum w)^2 / (m sum w^2)."""
        return effective_share(self.values)


def weigh(near: NDArray[Any], blend: float, most: float = MOST) -> Weights:
    """Weights from `near` [m], flags or probabilities that an instance's item is retrieved; `blend` is lambda."""
    if not 0 <= blend <= 1:
        raise ConfigError(f"weights: lambda must lie between 0 and 1, got {blend}")
    near = np.asarray(near, np.float64)
    if not len(near) or (blend < 1 and not near.any()):
        raise DataError(
            f"weights: none of {len(near)} wanted items was retrieved, so there is nothing to learn from; "
            "use more candidates, a better nominator, or mode = 'original'"
        )
    raw = np.ones_like(near) if blend == 1 else blend + (1 - blend) * near / near.mean()
    cut = np.minimum(raw, most)
    return Weights(cut / cut.mean(), float((raw > most).mean()))


def effective_share(values: NDArray[Any]) -> float:
    """(sum w)^2 / (m sum w^2), 0 where there is nothing."""
    total = float((values**2).sum())
    return float(values.sum()) ** 2 / (len(values) * total) if total else 0.0


def expected_share(recall: float, blend: float) -> float:
    """What `effective_share` comes to for flags with this recall: 1 / (l^2 + 2 l (1 - l) + (1 - l)^2 / R)."""
    return 1 / (blend**2 + 2 * blend * (1 - blend) + (1 - blend) ** 2 / recall)


def likely_retrieved(hit: Flags, told: Floats) -> Floats:
    """How likely each instance is retrieved [m], by a logistic regression on what is `told` of it [m, F].

    The smooth stand-in for flags: an item that was missed by chance keeps a part of its weight.
    """
    if hit.all() or not hit.any():
        return hit.astype(np.float64)
    spread = told.std(axis=0)
    scaled = (told - told.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    given = np.column_stack([np.ones(len(scaled)), scaled])
    at = np.zeros(given.shape[1])
    for _ in range(TURNS):
        chance = 1 / (1 + np.exp(-given @ at))
        slope = given.T @ (hit - chance) - RIDGE * at
        curve = (given * (chance * (1 - chance))[:, None]).T @ given + RIDGE * np.eye(len(at))
        move = np.linalg.solve(curve, slope)
        at = at + np.clip(move, -5, 5)
        if np.abs(move).max() < 1e-10:
            break
    return np.asarray(1 / (1 + np.exp(-given @ at)), np.float64)


@dataclass(frozen=True)
class Advice:
    """Whether learning on what is retrieved can be trusted, with the numbers it rests on."""

    level: str  # ok, warn or refuse
    recall: float  # wanted items among the candidates, of instances the nominators did not learn from
    instances: int
    kept: int  # retrieved instances
    effective: float
    dropped_items: (
        int  # wanted items that are never retrieved: a ranker that learns from the rest never meets them
    )
    dropped_share: float  # of all instances
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "reasons": list(self.reasons)}


@dataclass(frozen=True)
class Guard:
    """Learning on the retrieved helps only where enough is retrieved (the paper: recall above about 10 %).

    Recall here is that of single wanted items at the candidates a ranker is given, on instances that the nominators
    did not learn from. `per_item` retrieved instances for every item that is wanted at all should be left, and
    `effective` of all instances' worth.
    """

    recall: float = 0.10
    per_item: float = 20.0
    effective: float = 0.05

    def check(self, hit: Flags, items: NDArray[Any], weights: Weights | None = None) -> Advice:
        """Judge flags [m] of instances that want these items [m]; without weights, the flags are the weights."""
        count, kept = len(hit), int(hit.sum())
        wanted = np.unique(items)
        lost = np.setdiff1d(wanted, items[hit])
        share = effective_share(hit.astype(np.float64) if weights is None else weights.values)
        found = kept / count if count else 0.0
        reasons = self._reasons(found, kept, len(wanted), share)
        level = "refuse" if kept == 0 else "warn" if reasons else "ok"
        dropped = float(np.isin(items, lost).mean()) if count else 0.0
        return Advice(level, found, count, kept, share, len(lost), dropped, tuple(reasons))

    def _reasons(self, found: float, kept: int, wanted: int, share: float) -> Sequence[str]:
        told = []
        if found < self.recall:
            told.append(
                f"only {found:.1%} of wanted items are among the candidates; learning on the retrieved pays from "
                f"about {self.recall:.0%} on"
            )
        if kept < self.per_item * wanted:
            told.append(
                f"{kept:,} retrieved instances are left for {wanted:,} wanted items; {self.per_item:g} for each would "
                "be enough"
            )
        if share < self.effective:
            told.append(
                f"the weights leave {share:.1%} of the instances' worth; {self.effective:.0%} is the least"
            )
        return told
