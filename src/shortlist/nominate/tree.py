"""The items a beam search finds in a trained tree."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.grammar import Knob, Nominator
from shortlist.index.tree import BEAM, TreeIndex, search
from shortlist.settings import setting

ABOUT = "about"  # plain values of tree and scorer, as JSON bytes


@dataclass(frozen=True, eq=False, repr=False)
class TreeNominator(Nominator):
    """Beam search with a deep node scorer; nominates nothing for users without history."""

    index: TreeIndex
    beam: int = setting(BEAM, "Nodes kept per level; widened where the limit needs more.", least=1)
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")
    product: bool = setting(
        False, "Rank by the product of the path's probabilities, as probabilistic label trees do."
    )

    def nominate(self, query: Query) -> Candidates:
        exclude = query.history if self.exclude_seen else None
        beam = min(self.beam_width, self.index.tree.shape.n)  # all leaves
        found = search(self.index, query.history, self._most, beam, exclude, path=self.product)
        known = (query.history >= 0).any(1, keepdim=True)
        valid = known & (found.items >= 0)
        return Candidates.of(found.items.masked_fill(~valid, -1), found.scores.masked_fill(~valid, 0.0))

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        if self.index.tree.n_items != n_items:
            raise ArtifactError(
                f"the tree is of {self.index.tree.n_items} items, the catalogue has {n_items}"
            )

    @property
    def beam_width(self) -> int:
        """The width of the search: `beam`, or the width that the limit needs."""
        return max(self.beam, self._least_beam)

    @property
    def _least_beam(self) -> int:
        return -(-self._most // self.index.tree.shape.branch)

    @property
    def _most(self) -> int:
        """The largest number of items that can be found."""
        return min(self.limit, self.index.tree.n_items)

    def knobs(self) -> tuple[Knob, ...]:
        return (*super().knobs(), Knob("beam", self.beam_width, "scale", self._least_beam))

    def tensors(self) -> dict[str, Tensor]:
        own = {name: tensor.cpu() for name, tensor in self.index.tensors().items()}
        return {**own, ABOUT: json_to_tensor(self.index.settings())}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        about = json_from_tensor(tensors, ABOUT, "tree")
        own = {name: tensor for name, tensor in tensors.items() if name != ABOUT}
        return cls(TreeIndex.build(about, own), **settings)
