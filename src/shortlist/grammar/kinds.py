"""The five kinds of stages; each returns only what it owns."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.candidates import repeats
from shortlist.errors import GrammarError
from shortlist.grammar.stage import Stage
from shortlist.settings import Setting, setting


@dataclass(frozen=True, eq=False, repr=False)
class Nominator(Stage):
    """Candidate generator: nominates at most `limit` items of the whole catalogue per request."""

    kind: ClassVar[str] = "nominator"
    size_field: ClassVar[str] = "limit"

    _: KW_ONLY
    limit: int = setting(100, "Largest number of candidates per request.", least=1)
    score_pool: bool = setting(False, "Also score the candidates that other nominators of the pool found.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score_pool and not self.can_score():
            raise GrammarError(f"{self.title}: this type cannot score the pool; remove score_pool")

    @abstractmethod
    def nominate(self, query: Query) -> Candidates:
        """Items with scores, best first; a negative item is an empty place."""

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        """`score` of the given items [B, K], NaN where there is none, and further columns about them."""
        raise NotImplementedError

    @classmethod
    def can_score(cls) -> bool:
        """Whether the type scores given items, which `score_pool` needs."""
        return cls.item_columns is not Nominator.item_columns

    def pool_scores(self, name: str) -> "Stage | None":
        return PoolScores(self, name=name) if self.score_pool else None

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        return tuple(one for one in super().declared() if one.name != "score_pool" or cls.can_score())

    def settings(self) -> dict[str, Any]:
        left_out = () if self.can_score() else ("score_pool",)
        return {name: value for name, value in super().settings().items() if name not in left_out}

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        nominated = self.nominate(query)
        ordered = nominated.nonfinite_last(self.title)
        in_order = ordered is nominated and ordered.shape[1] <= self.limit
        return ordered if in_order else ordered.best(self.limit)


@dataclass(frozen=True, eq=False, repr=False)
class Filter(Stage):
    """Removes candidates; it cannot add, score or reorder them."""

    kind: ClassVar[str] = "filter"

    @abstractmethod
    def keep(self, query: Query, found: Candidates) -> Tensor:
        """True where a candidate is kept [B, K]."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.keep(self.keep(query, found))


@dataclass(frozen=True, eq=False, repr=False)
class Hydrator(Stage):
    """Adds columns to candidates; it cannot add, drop or reorder them."""

    kind: ClassVar[str] = "hydrator"

    @abstractmethod
    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        """New columns by name, each [B, K]."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.add(self.columns(query, found))


@dataclass(frozen=True, eq=False, repr=False)
class PoolScores(Hydrator):
    """A nominator's scores of all candidates of the pool, in the columns `NAME.score`, `NAME.z` and its own ones.

    `NAME.z` is standardised by the scores of the items that this nominator nominated, so it depends neither on other
    nominators nor on later cuts.
    """

    nominator: Nominator

    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        own, rank = found.columns[f"{self.name}.score"], found.columns[f"{self.name}.rank"]
        made = dict(self.nominator.item_columns(query, found.items.clamp(min=0)))
        made["score"] = torch.where(rank.isnan(), made["score"].to(own.dtype), own)
        made["z"] = _standardised(made["score"], rank)
        return {f"{self.name}.{what}": one.masked_fill(~found.valid, torch.nan) for what, one in made.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Scorer(Stage):
    """Scores every candidate, higher is better; it cannot drop or reorder them."""

    kind: ClassVar[str] = "scorer"

    @abstractmethod
    def score(self, query: Query, found: Candidates) -> Tensor:
        """One score per candidate [B, K]; scores at invalid places are ignored."""

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        return found.score(self.score(query, found).to(torch.float32)).nonfinite_last(self.title)


@dataclass(frozen=True, eq=False, repr=False)
class Selector(Stage):
    """Selects at most `k` candidates and their order."""

    kind: ClassVar[str] = "selector"
    size_field: ClassVar[str] = "k"

    _: KW_ONLY
    k: int = setting(10, "Largest number of selected candidates.", least=1)

    @property
    def capacity(self) -> int:
        return self.k

    @abstractmethod
    def select(self, query: Query, found: Candidates) -> Tensor:
        """Positions of the selected candidates, best first [B, k]; negative for an empty place."""

    def selection_columns(self, query: Query, found: Candidates, positions: Tensor) -> Mapping[str, Tensor]:
        """Columns about the selected candidates [B, k], such as a propensity."""
        return {}

    def __call__(self, query: Query, found: Candidates) -> Candidates:
        positions = self.select(query, found)[:, : self.k if found.shape[1] else 0]
        positions = positions.masked_fill(repeats(positions), -1)
        return found.take(positions).add(self.selection_columns(query, found, positions))


def _standardised(scores: Tensor, rank: Tensor) -> Tensor:
    """Scores [B, K] minus the mean over nominated items, over their standard deviation; NaN where that is 0."""
    own = scores.masked_fill(rank.isnan() | ~scores.isfinite(), torch.nan)
    mean = own.nanmean(1, keepdim=True)
    deviation = (own - mean).square().nanmean(1, keepdim=True).sqrt()
    return (scores - mean) / deviation.masked_fill(deviation <= 0, torch.nan)
