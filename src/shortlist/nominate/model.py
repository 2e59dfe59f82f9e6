"""The items a model of the whole catalogue scores best."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator
from shortlist.index import INDEXES, VectorIndex, make_index, packed_index, top, unpacked_index
from shortlist.index.exact import without
from shortlist.models.model import Model, VectorModel
from shortlist.models.registry import packed, unpacked


@dataclass(frozen=True, eq=False, repr=False)
class ModelNominator(Nominator):
    """The items with the best scores are named; a user without history gets what the model says of anybody.

    `fresh` leaves out what the request's history holds before the best are taken, so that no place is lost to it.
    Where scores are products of vectors, an index of one of the kinds in `INDEXES` searches for them; it is made with
    the stage and saved with it. `ef` and `nprobe` say how far such an index looks, 0 = as it does by itself. Any other
    model scores every item. Who renews a stage with another model says built=None too.
    """

    words: ClassVar[Mapping[str, tuple[str, ...]]] = {"index": INDEXES}
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"ef": (0, 1e6), "nprobe": (0, 1e6)}

    model: Model
    exclude_seen: bool = False
    index: str = "exact"
    ef: int = 0
    nprobe: int = 0
    built: VectorIndex | None = field(default=None, kw_only=True)  # None: made from the model's vectors

    def __post_init__(self) -> None:
        object.__setattr__(self, "built", self._index())

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        met = query.history if self.exclude_seen else None
        if isinstance(self.model, VectorModel) and self.built is not None:
            users = self.model.users(query.history, query.user)  # [B, D]
            items, scores = self.built.search(users, self.limit, met)
        else:
            scores = self.model.scores(query.history, query.user)  # [B, N]
            scores, items = top(scores if met is None else without(scores, met), self.limit)
            items = items.masked_fill(scores == -torch.inf, -1)
        return Candidates.of(items, scores.masked_fill(items < 0, 0.0))

    def tensors(self) -> dict[str, Tensor]:
        # What `exact` searches among are the model's own vectors: they are there already.
        made = None if self.index == "exact" else self.built
        return {**packed(self.model), **({} if made is None else packed_index(made))}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(unpacked(tensors), **settings, built=unpacked_index(tensors))

    @torch.no_grad()
    def _index(self) -> VectorIndex | None:
        """The index that was given, as it is to be asked, or one made now; None for a model without vectors."""
        knobs = {name: value for name, value in (("ef", self.ef), ("nprobe", self.nprobe)) if value}
        if not isinstance(self.model, VectorModel):
            if self.index != "exact" or knobs:
                raise ConfigError(
                    f"{self.title}: index {self.index!r} needs a model whose scores are products of vectors, got "
                    f"{type(self.model).__name__}; leave index, ef and nprobe away"
                )
            return None
        if self.built is not None and self.built.kind == self.index != "exact":
            return self.built.tuned(**knobs)
        return make_index(self.index, self.model.vectors(), **knobs)
