"""The items of the leaves that a beam search with the user's vector reaches."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.artifact.tensor_checks import check_floats
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.grammar import Knob, Nominator
from shortlist.index.jtr import JTRIndex, search
from shortlist.models.model import VectorModel
from shortlist.models.registry import packed, unpacked
from shortlist.nominate.model import history_match
from shortlist.settings import setting

PREFIX = "tree."
ABOUT = "tree.about"  # plain values of the tree, as JSON bytes


@dataclass(frozen=True, eq=False, repr=False)
class JTRNominator(Nominator):
    """Beam search in a tree of leaves, then the best items of the reached leaves by their own vectors.

    A user without history gets the items the encoder scores best for an empty history.
    """

    model: VectorModel
    index: JTRIndex
    beam: int = setting(10, "Leaves that are reached; widened where the limit needs more.", least=1)
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        users = self.model.users(query.history, query.user)  # [B, D]
        exclude = query.history if self.exclude_seen else None
        beam = min(self.beam_width, len(self.index.tree.leaves))
        found = search(self.index, self.model.vectors(), users, self._most, beam, exclude)
        return Candidates.of(found.items, found.scores.masked_fill(found.items < 0, 0.0))

    @torch.no_grad()
    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        scores = self.model.score_rows(query.history, items, query.user)
        return {"score": scores, **history_match(self.model, query.history, items)}

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.model.check_catalogue(n_items)  # the tree has as many items as the model
        check_floats("tree.nodes", self.index.nodes)

    @property
    def beam_width(self) -> int:
        """The number of leaves that are reached: `beam`, or enough equally full leaves to hold the limit."""
        return max(self.beam, self._least_beam)

    @property
    def _least_beam(self) -> int:
        tree = self.index.tree
        return max(1, -(-self._most * len(tree.leaves) // max(tree.n_items, 1)))

    @property
    def _most(self) -> int:
        """The largest number of items that can be found."""
        return min(self.limit, self.index.tree.n_items)

    def knobs(self) -> tuple[Knob, ...]:
        return (*super().knobs(), Knob("beam", self.beam_width, "scale", self._least_beam))

    def tensors(self) -> dict[str, Tensor]:
        own = {name: tensor.cpu() for name, tensor in self.index.tensors().items()}
        about = json_to_tensor(self.index.settings())
        return {**packed(self.model), **with_prefix(PREFIX, own), ABOUT: about}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        model = unpacked(tensors)
        if not isinstance(model, VectorModel):
            raise ArtifactError(
                f"jtr: expected a model with vectors, got {type(model).__name__}; make the artifact again"
            )
        about = json_from_tensor(tensors, ABOUT, "jtr")
        index = JTRIndex.build(about, without_prefix(PREFIX, tensors))
        _check_sizes(model, index)
        return cls(model, index, **settings)


def _check_sizes(model: VectorModel, index: JTRIndex) -> None:
    expected, got = (index.tree.n_items, index.nodes.shape[1]), tuple(model.vectors().shape)
    if expected != got:
        raise ArtifactError(
            f"jtr: the tree has (items, width) {expected}, the model has {got}; they come from different trainings"
        )
