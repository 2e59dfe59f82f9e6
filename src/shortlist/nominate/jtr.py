"""The items of the leaves that a history's vector walks to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Nominator
from shortlist.index.jtr import JTRIndex, search
from shortlist.models.model import VectorModel
from shortlist.models.registry import packed, unpacked

PREFIX = "tree."
ABOUT = "tree.about"  # the plain values of the tree travel with its tensors, as JSON in bytes


@dataclass(frozen=True, eq=False, repr=False)
class JTRNominator(Nominator):
    """A beam down a tree of leaves, then the best items of the leaves by their own vectors.

    A user without history gets what the encoder says of anybody. `fresh` leaves out what the request's history holds
    before the best are taken, so that no place is lost to it. A beam too narrow for the limit is widened.
    """

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"beam": (1, 1e9)}

    model: VectorModel
    index: JTRIndex
    beam: int = 10
    exclude_seen: bool = False

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise ConfigError(f"jtr: beam must be at least 1, got {self.beam}")

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        users = self.model.users(query.history, query.user)  # [B, D]
        exclude = query.history if self.exclude_seen else None
        found = search(self.index, self.model.vectors(), users, self.limit, self.wide, exclude)
        return Candidates.of(found.items, found.scores.masked_fill(found.items < 0, 0.0))

    @property
    def wide(self) -> int:
        """How many leaves are walked to: as many as hold the limit if none is fuller than others, at least."""
        tree = self.index.tree
        return max(self.beam, -(-self.limit * len(tree.leaves) // max(tree.n_items, 1)))

    def tensors(self) -> dict[str, Tensor]:
        about = json.dumps(self.index.settings(), sort_keys=True).encode()
        kept = {PREFIX + name: one.cpu() for name, one in self.index.tensors().items()}
        return {**packed(self.model), **kept, ABOUT: torch.frombuffer(bytearray(about), dtype=torch.uint8)}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        model = unpacked(tensors)
        if not isinstance(model, VectorModel):
            raise ArtifactError(
                f"jtr: expected a model with vectors, got {type(model).__name__}; make the artifact again"
            )
        kept = {name.removeprefix(PREFIX): one for name, one in tensors.items() if name.startswith(PREFIX)}
        index = JTRIndex.build(_about(tensors), kept)
        _check(model, index)
        return cls(model, index, **settings)


def _about(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """What the tensors say of the tree."""
    if ABOUT not in tensors:
        raise ArtifactError(f"jtr: its tensors lack {ABOUT!r}; make the artifact again")
    try:
        about = json.loads(bytes(tensors[ABOUT].tolist()))
    except (ValueError, TypeError, RecursionError) as error:
        raise ArtifactError(f"jtr: {ABOUT!r} is no JSON ({error}); make the artifact again") from error
    if not isinstance(about, dict):
        raise ArtifactError(f"jtr: {ABOUT!r} must hold settings, got {about!r}; make the artifact again")
    return about


def _check(model: VectorModel, index: JTRIndex) -> None:
    wanted, got = (index.tree.n_items, index.nodes.shape[1]), tuple(model.vectors().shape)
    if wanted != got:
        raise ArtifactError(
            f"jtr: the tree is of items and width {wanted}, the model of {got}; they belong to different trainings"
        )
