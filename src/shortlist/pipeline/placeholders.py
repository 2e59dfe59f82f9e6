"""Placeholders of stages that are not trained yet: an expression can be checked, and a part of it can run."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import GrammarError
from shortlist.grammar import KINDS, Filter, Hydrator, Nominator, Scorer, Selector, Stage


def placeholder(kind: type[Stage], name: str) -> Stage:
    """A stage of the same kind and default size that changes no candidate; a nominator nominates nothing."""
    for base, pending in _PLACEHOLDERS.items():
        if issubclass(kind, base):
            return pending(name=name, **_default_size(kind))
    raise GrammarError(f"stage {name!r}: {kind.__name__} has no kind: derive it from {KINDS}")


def _default_size(kind: type[Stage]) -> dict[str, Any]:
    """The field that `%` sets, with the default of this class; nothing where the class has none."""
    return {
        one.name: one.default
        for one in fields(kind)
        if one.name == kind.size_field and one.default is not MISSING
    }


@dataclass(frozen=True, eq=False, repr=False)
class _PendingNominator(Nominator):
    """Nominates nothing."""

    def nominate(self, query: Query) -> Candidates:
        return Candidates.none(len(query))


@dataclass(frozen=True, eq=False, repr=False)
class _PendingFilter(Filter):
    """Keeps all candidates."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return torch.ones_like(found.valid)


@dataclass(frozen=True, eq=False, repr=False)
class _PendingScorer(Scorer):
    """Keeps the scores."""

    def score(self, query: Query, found: Candidates) -> Tensor:
        return found.scores


@dataclass(frozen=True, eq=False, repr=False)
class _PendingSelector(Selector):
    """Selects the best by score."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        return found.sort_keys().sort(dim=1, descending=True, stable=True).indices


@dataclass(frozen=True, eq=False, repr=False)
class _PendingHydrator(Hydrator):
    """Adds no columns."""

    empty: Mapping[str, Tensor] = field(default_factory=dict)

    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        return self.empty


_PLACEHOLDERS: Mapping[Any, type[Stage]] = {
    Nominator: _PendingNominator,
    Filter: _PendingFilter,
    Scorer: _PendingScorer,
    Selector: _PendingSelector,
    Hydrator: _PendingHydrator,
}
