"""Wanted items counted stage by stage: what went in, what was lost, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConservationError, DataError
from shortlist.metrics.estimate import Estimate, Floats, shares

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StageTrace:
    """Which wanted items were still there after each stage; without `rescue` what was lost stays lost.

    `weight` is what a pair (request, wanted item) counts: None is 1 each, one over the wanted items of its request
    makes all requests count alike.
    """

    alive: Bools  # [n, S]
    names: tuple[str, ...]
    user: Ints  # [n]
    weight: Floats | None = None  # [n]
    rescue: bool = False

    def __post_init__(self) -> None:
        count = len(self.user)
        if self.alive.shape != (count, len(self.names)):
            raise DataError(
                f"stage trace: expected alive [{count}, {len(self.names)}] for {count} pairs and {len(self.names)} "
                f"stages, got {list(self.alive.shape)}"
            )
        if self.weight is not None and (self.weight.shape != (count,) or not bool((self.weight >= 0).all())):
            raise DataError("stage trace: expected one weight of 0 or more per pair; mend the weights")
        back = self.alive[:, 1:] & ~self.alive[:, :-1]
        if not self.rescue and bool(back.any()):
            stage = self.names[int(back.any(0).argmax()) + 1]
            raise ConservationError(
                f"stage trace: {int(back.sum())} wanted items come back after they were lost, first at {stage!r}; "
                "say rescue=True for a pipeline that puts items back"
            )

    @property
    def before(self) -> Bools:
        """What each stage was given [n, S]."""
        return np.concatenate([np.ones((len(self.user), 1), bool), self.alive], axis=1)[:, : len(self.names)]

    @classmethod
    def joined(cls, parts: Sequence["StageTrace"]) -> "StageTrace":
        """The pairs of several traces of the same stages."""
        if not parts or any(part.names != parts[0].names for part in parts):
            raise DataError("stage trace: expected parts with the same stages, got none or different ones")
        weighted = [part.weight for part in parts if part.weight is not None]
        if len(weighted) not in (0, len(parts)):
            raise DataError("stage trace: expected all parts with weights or none, got some of each")
        return cls(
            np.concatenate([part.alive for part in parts]),
            parts[0].names,
            np.concatenate([part.user for part in parts]),
            np.concatenate(weighted) if weighted else None,
            any(part.rescue for part in parts),
        )


@dataclass(frozen=True, eq=False)
class Losses:
    """Sums per user, whole numbers unless pairs have weights: all a decomposition and its intervals are made of.

    They add up over shards: `merge` is the decomposition of all pairs together.
    """

    names: tuple[str, ...]
    users: Ints  # [U]
    wanted: NDArray[Any]  # [U]
    lost: NDArray[Any]  # [U, S]
    rescued: NDArray[Any]  # [U, S]

    @cached_property
    def per_user(self) -> NDArray[Any]:
        """What was there before the first stage and after each of them [U, S + 1]."""
        steps = np.concatenate([self.wanted[:, None], self.rescued - self.lost], axis=1)
        return steps.cumsum(axis=1)

    @property
    def alive(self) -> NDArray[Any]:
        """The same over all users: a_0, a_1, ... [S + 1]."""
        return np.asarray(self.per_user.sum(axis=0))

    @property
    def first_losses(self) -> NDArray[Any]:
        """What each stage lost, less what it put back [S]; they add up to a_0 - a_S."""
        return np.asarray((self.lost - self.rescued).sum(axis=0))

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """The share each stage lost of what it was given; None where nothing came."""
        pairs = zip(self.first_losses, self.alive[:-1], strict=True)
        return tuple(float(lost / came) if came else None for lost, came in pairs)

    @property
    def error(self) -> float | None:
        """The share of wanted items that did not come out at the end; None without any."""
        return float(1 - self.alive[-1] / self.alive[0]) if self.alive[0] else None

    @property
    def product_error(self) -> float | None:
        """The same from conditional errors, 1 - product of (1 - e); equal but for rounding."""
        rates = [rate for rate in self.conditional if rate is not None]
        return float(1 - np.prod([1 - rate for rate in rates])) if self.alive[0] else None

    def merge(self, *others: "Losses") -> "Losses":
        """The sums of all shards; a user in several of them is one user."""
        every = (self, *others)
        if any(one.names != self.names for one in every):
            raise DataError("losses: expected shards with the same stages, got different ones")
        users, at = np.unique(np.concatenate([one.users for one in every]), return_inverse=True)
        wanted, lost, rescued = (
            _summed(at, len(users), np.concatenate([getattr(one, name) for one in every]))
            for name in ("wanted", "lost", "rescued")
        )
        return Losses(self.names, users, wanted, lost, rescued)

    def intervals(self, seed: int = 0, draws: int = 1000) -> tuple[Estimate, ...]:
        """The share of all wanted items that each stage lost, over users."""
        return shares(self.lost - self.rescued, self.wanted, seed, draws)

    def recall(self, seed: int = 0, draws: int = 1000) -> Estimate:
        """The share that came out at the end."""
        return shares(self.per_user[:, -1:], self.wanted, seed, draws)[0]


def decompose(trace: StageTrace) -> Losses:
    """Losses by stage and user, in whole numbers where pairs have no weights."""
    users, at = np.unique(trace.user, return_inverse=True)
    weight = np.ones(len(trace.user), np.int64) if trace.weight is None else trace.weight
    before = trace.before
    sums = (
        _summed(at, len(users), weight),
        _summed(at, len(users), (before & ~trace.alive) * weight[:, None]),
        _summed(at, len(users), (~before & trace.alive) * weight[:, None]),
    )
    return Losses(trace.names, users, *sums)


def _summed(at: Ints, count: int, values: NDArray[Any]) -> NDArray[Any]:
    """Rows of values added up by the user each belongs to [U, ...]."""
    sums = np.zeros((count, *values.shape[1:]), values.dtype)
    np.add.at(sums, at, values)
    return sums
