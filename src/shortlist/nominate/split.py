"""A budget of candidates split over the nominators of a pool, by what is known of the request."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Selector
from shortlist.nominate.split_gate import SplitGate
from shortlist.settings import setting

COVERED = 1.0  # depth of the last candidate within a limit


@dataclass(frozen=True, eq=False, repr=False)
class Split(Selector):
    """At most k candidates of a pool: of each nominator the best ones, by limits for each segment of requests.

    The depth of a candidate is its place in a nominator's list over the limit of that nominator, the least of all
    nominators; the k least deep candidates stay, in the order of their scores. Items of several nominators count once,
    so lists are read beyond their limits, all by the same factor, until there are k candidates. Another k scales all
    limits. A gate multiplies the limits by what it expects of each nominator for the request.
    """

    nominators: tuple[str, ...] = setting((), "Names of the nominators that share the budget.")
    limits: tuple[tuple[int, ...], ...] = setting(
        (), "A row of limits for each segment, one for each nominator; learned where they are not given."
    )
    history: tuple[int, ...] = setting(
        (), "Shortest history of the second and each further segment, in ascending order.", least=1
    )
    fill: bool = setting(True, "Read lists beyond their limits until there are k different candidates.")
    gate: SplitGate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for problem in self._problems():
            raise ConfigError(f"{self.title}: {problem}")

    def _problems(self) -> Iterator[str]:
        """What is wrong with names, limits or segments."""
        if not self.nominators or len(set(self.nominators)) != len(self.nominators):
            yield f"nominators: expected different names, got {list(self.nominators)}"
        if list(self.history) != sorted(set(self.history)):
            yield f"history: expected lengths in ascending order, got {list(self.history)}"
        if len(self.limits) != len(self.history) + 1:
            yield (
                f"limits: expected {len(self.history) + 1} rows, one more than lengths in history, "
                f"got {len(self.limits)}"
            )
        for row in self.limits:
            if len(row) != len(self.nominators) or min(row, default=0) < 0 or not any(row):
                yield (
                    f"limits: expected numbers from 0 for {', '.join(self.nominators)}, "
                    f"at least one of them above 0, got {list(row)}"
                )

    def select(self, query: Query, found: Candidates) -> Tensor:
        return least_deep(found, self.depth(query, found), self.k, self.fill)

    def depth(self, query: Query, found: Candidates) -> Tensor:
        """How far down the lists each candidate is, in limits [B, K]; the largest number where none returned it."""
        return depth_in_lists(found, self.nominators, self.rates(query))

    def rates(self, query: Query) -> Tensor:
        """The limits of the nominators for every request [B, N]."""
        own = self._rates[self.segments(query)]
        # At least one slot of every nominator with a limit, so that it stays in the log.
        return own if self.gate is None else (own * self.gate(query)).clamp(min=1) * (own > 0)

    def segments(self, query: Query) -> Tensor:
        """The segment of every request [B], by the length of its history."""
        lengths = (query.history >= 0).sum(1)
        return torch.bucketize(lengths, self._starts.to(lengths.device), right=True)

    @cached_property
    def _starts(self) -> Tensor:
        return torch.tensor(self.history, dtype=torch.int64)

    @cached_property
    def _rates(self) -> Tensor:
        return torch.tensor(self.limits, dtype=torch.float32)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        unknown = [name for name in self.nominators if name not in nominators]
        if unknown:
            raise ArtifactError(
                f"{self.title}: expected nominators of the pool ({', '.join(sorted(nominators))}), "
                f"got {', '.join(unknown)}"
            )
        if self.gate is not None:
            self.gate.check(n_items, len(self.nominators))

    def tensors(self) -> dict[str, Tensor]:
        return {} if self.gate is None else self.gate.tensors()

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(**settings, gate=SplitGate.of(tensors))


def depth_in_lists(found: Candidates, nominators: Sequence[str], rates: Tensor) -> Tensor:
    """The least place of each candidate in a nominator's list over the limit of the nominator [B, K].

    `rates` [B, N] are the limits of each request. A candidate that no nominator returned has the largest number.
    """
    deepest = torch.finfo(torch.float32).max
    depth = torch.full(found.shape, deepest, device=found.items.device)
    for number, name in enumerate(nominators):
        rank = found.columns.get(f"{name}.rank")  # None where the nominator was taken out of the pool
        if rank is not None:
            own = (rank + 1) / rates[:, number, None]
            depth = torch.minimum(depth, own.nan_to_num(nan=deepest, posinf=deepest))
    return depth.masked_fill(~found.valid, torch.inf)


def least_deep(found: Candidates, depth: Tensor, k: int, fill: bool = True) -> Tensor:
    """Positions of the k least deep candidates in the order of their scores; without `fill`, those within limits."""
    kept = depth.sort(dim=1, stable=True).indices[:, :k]
    inside = depth.gather(1, kept) <= (torch.finfo(depth.dtype).max if fill else COVERED)
    scores = found.sort_keys().gather(1, kept).masked_fill(~inside, -torch.inf)
    order = scores.sort(dim=1, descending=True, stable=True).indices
    return kept.masked_fill(~inside, -1).gather(1, order)
