"""The items a beam finds on its way down a learned tree."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Nominator
from shortlist.index.tree import TreeIndex, search

ABOUT = "about"  # the plain values of tree and scorer travel with the tensors, as JSON in bytes


@dataclass(frozen=True, eq=False, repr=False)
class TreeNominator(Nominator):
    """Beam search with a deep scorer; silent for users without any history.

    `fresh` leaves out what the request's history holds before the best are taken, so that no place is lost to it.
    `product` ranks by the product of probabilities on a path, as probabilistic label trees do.
    """

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"beam": (1, 1e9)}

    index: TreeIndex
    beam: int = 150
    exclude_seen: bool = False
    product: bool = False

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"tree: beam must be at least 1, got {self.beam}")

    def nominate(self, query: Query) -> Candidates:
        wide = max(self.beam, -(-self.limit // self.index.tree.shape.branch))
        exclude = query.history if self.exclude_seen else None
        found = search(self.index, query.history, self.limit, wide, exclude, path=self.product)
        known = (query.history >= 0).any(1, keepdim=True)
        there = known & (found.items >= 0)
        return Candidates.of(found.items.masked_fill(~there, -1), found.scores.masked_fill(~there, 0.0))

    def tensors(self) -> dict[str, Tensor]:
        about = json.dumps(self.index.settings(), sort_keys=True).encode()
        kept = {name: one.cpu() for name, one in self.index.tensors().items()}
        return {**kept, ABOUT: torch.frombuffer(bytearray(about), dtype=torch.uint8)}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        kept = dict(tensors)
        if ABOUT not in kept:
            raise ArtifactError(f"tree: its tensors lack {ABOUT!r}; make the artifact again")
        try:
            about = json.loads(bytes(kept.pop(ABOUT).tolist()))
        except (ValueError, TypeError, RecursionError) as error:
            raise ArtifactError(f"tree: {ABOUT!r} is no JSON ({error}); make the artifact again") from error
        if not isinstance(about, dict):
            raise ArtifactError(f"tree: {ABOUT!r} must hold settings, got {about!r}; make the artifact again")
        return cls(TreeIndex.build(about, kept), **settings)
