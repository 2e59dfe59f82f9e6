"""A nominator that is restricted to an item pool."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.artifact.tensor_checks import check_shape
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError, GrammarError
from shortlist.grammar import Nominator
from shortlist.nominate.covisit import CoVisit
from shortlist.nominate.jtr import JTRNominator
from shortlist.nominate.model import ModelNominator
from shortlist.nominate.pooled import Pooled
from shortlist.nominate.popular import Popular, Recent
from shortlist.nominate.repeat import Repeat
from shortlist.nominate.tree import TreeNominator
from shortlist.settings import setting

NOMINATORS: dict[str, type[Nominator]] = {
    one.__name__: one
    for one in (CoVisit, JTRNominator, ModelNominator, Pooled, Popular, Recent, Repeat, TreeNominator)
}
"""Nominators that can be stored inside a pool; add your own class under its name."""

PREFIX = "inner."
ABOUT = "about"  # class and settings of the nominator, as JSON bytes


@dataclass(frozen=True, eq=False, repr=False)
class InPool(Nominator):
    """Another nominator's best items of one pool.

    It asks for as many items as hold `limit` of the pool on average, and for twice as many, again and again, for the
    requests that need more; a request therefore gets the same items alone and in any batch. In a recipe `by` names the
    nominator, `pools` a stage that has pools or a file of pools, and both stand before this stage.
    """

    inner: Nominator
    pool: Tensor  # [A] bool
    by: str = setting("", "Name of the stage that nominates.")
    pools: str = setting("", "Stage that has item pools, or a file with a line for each nominator.")
    number: int = setting(0, "The pool of that stage, from 0.", least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool.ndim != 1 or self.pool.dtype != torch.bool or not bool(self.pool.any()):
            raise ConfigError(
                f"{self.title}: expected a pool with at least one item, true or false for each, got "
                f"{list(self.pool.shape)} of {self.pool.dtype} with {int(self.pool.sum())} items"
            )
        if getattr(self.inner, "serving_noise", 0):
            raise ConfigError(
                f"{self.title}: the probabilities of {self.inner.title!r} do not hold inside a pool; "
                "set its serving_noise to 0"
            )
        if self.score_pool and not self.inner.can_score():
            raise GrammarError(f"{self.title}: {self.inner.title!r} cannot score the pool; remove score_pool")

    def nominate(self, query: Query) -> Candidates:
        most, size = len(self.pool), int(self.pool.sum())
        places, device = min(self.limit, size), query.history.device
        items = torch.full((len(query), places), -1, device=device)
        scores = torch.zeros(len(query), places, device=device)
        left = torch.arange(len(query), device=device)
        fetch = min(most, -(-places * most // size))
        while len(left):
            own, done = self._inside(query.take(left), fetch, places)
            items[left, : own.shape[1]], scores[left, : own.shape[1]] = own.items, own.scores
            left, fetch = left[~done], min(most, 2 * fetch)
        return Candidates.of(items, scores.masked_fill(items < 0, 0.0))

    def _inside(self, query: Query, fetch: int, places: int) -> tuple[Candidates, Tensor]:
        """The best items of the pool among so many of the nominator, and for which requests there are no more [B]."""
        found = self.inner.at_most(fetch)(query, Candidates.none(len(query), query.history.device))
        inside = found.keep(self.pool[found.items.clamp(min=0)] & found.valid)
        ended = (found.valid.sum(1) < fetch) | (fetch >= len(self.pool))
        best = inside.best(places)
        done = (inside.valid.sum(1) >= places) | ended
        empty = best.items.masked_fill(~best.valid, -1)
        return Candidates.of(empty, best.scores), done

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        """Those of the nominator; an item outside the pool has no score."""
        columns = dict(self.inner.item_columns(query, items))
        return columns | {"score": columns["score"].masked_fill(~self.pool[items], torch.nan)}

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("pool", self.pool, n_items)
        self.inner.check_catalogue(n_items, nominators)

    def tensors(self) -> dict[str, Tensor]:
        kind = type(self.inner).__name__
        if NOMINATORS.get(kind) is not type(self.inner):
            raise ConfigError(
                f"{self.title}: {kind} has no stored form inside a pool; add it to "
                "shortlist.nominate.in_pool.NOMINATORS"
            )
        about = json_to_tensor({"kind": kind, "settings": self.inner.settings()})
        return {**with_prefix(PREFIX, self.inner.tensors()), "pool": self.pool, ABOUT: about}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        about = json_from_tensor(tensors, ABOUT, "in-pool")
        kind, own = NOMINATORS.get(about.get("kind", "")), about.get("settings")
        if kind is None or not isinstance(own, dict):
            raise ArtifactError(
                f"in-pool: {ABOUT!r} holds no nominator of {', '.join(NOMINATORS)}; train the bundle again"
            )
        plain = {name: tuple(one) if isinstance(one, list) else one for name, one in own.items()}
        try:
            inner = kind.build(plain, without_prefix(PREFIX, tensors))
            return cls(inner, tensors["pool"], **settings)
        except (TypeError, KeyError, ValueError, RuntimeError, ConfigError, GrammarError) as error:
            reason = " ".join(str(error).split())
            raise ArtifactError(
                f"in-pool: settings and tensors of the nominator do not fit ({reason})"
            ) from error
