"""The recurrences of a state model on arrays: what a store of states needs of its model."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ArtifactError
from shortlist.models.sequence.gru_kernel import Floats, Integers, advance, kernel_weights
from shortlist.models.state_model import StateModel
from shortlist.state.table.records import FORMATS

Items = NDArray[np.int32]
Bools = NDArray[np.bool_]


class Recurrences:
    """Starts, steps and readouts of a model, in the number format of a store; its weights must not change."""

    def __init__(self, model: StateModel, storage: str) -> None:
        _check_finite(model)
        self.model, self.width = model, model.state_width
        self._storage = FORMATS[storage]
        self._vectors = np.ascontiguousarray(model.inputs().detach().float().numpy(force=True))  # [N, D]
        self._weights = [kernel_weights(model.recurrence(active)) for active in (False, True)]

    @property
    def n_items(self) -> int:
        return len(self._vectors)

    def run(
        self, states: Floats, active: Bools, personal: Floats, starts: Integers, items: Items
    ) -> tuple[Floats, Floats]:
        """States [R, D] after the items[starts[r]:starts[r + 1]] of each row, and the steps of their int8 form [R]."""
        groups = [group for group in (False, True) if bool((active == group).any())]
        if len(groups) == 1:
            return self._run(groups[0], states, personal, starts, items)
        after, scales = np.empty_like(states), np.empty(len(states), np.float32)
        for group in groups:
            rows = np.flatnonzero(active == group)
            own, chosen = taken(starts, rows)
            after[rows], scales[rows] = self._run(group, states[rows], personal[rows], own, items[chosen])
        return after, scales

    @torch.no_grad()
    def active(self, rows: Integers) -> Bools:
        """Whether users of the bundle [U] begin with a vector of their own."""
        found: Bools = self.model.active(torch.from_numpy(rows)).numpy(force=True)
        return found

    @torch.no_grad()
    def base_events(self, rows: Integers) -> Integers:
        """How many first events of each user [U] are in its start vector."""
        found: Integers = self.model.base_events(torch.from_numpy(rows)).numpy(force=True)
        return found

    @torch.no_grad()
    def personal(self, rows: Integers) -> Floats:
        """The vectors of active users, zeros for all others [U, D]."""
        found: Floats = self.model.personal(torch.from_numpy(rows)).float().numpy(force=True)
        return found

    @torch.no_grad()
    def starts(self, active: Bools, personal: Floats) -> Floats:
        """States before the first event after the base [U, D]."""
        found = self.model.starts_of(torch.from_numpy(active), torch.from_numpy(personal))
        starts: Floats = found.float().numpy(force=True)
        return starts

    @torch.no_grad()
    def readout(self, states: Floats, last_items: Integers, active: Bools, personal: Floats) -> Tensor:
        """User vectors [U, D]."""
        given = (torch.from_numpy(one) for one in (states, last_items, active, personal))
        return self.model.readout_of(*given).float().cpu()

    def _run(
        self, group: bool, states: Floats, personal: Floats, starts: Integers, items: Items
    ) -> tuple[Floats, Floats]:
        return advance(states, starts, items, self._vectors, self._weights[group], personal, self._storage)


def taken(starts: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """The starts of some of the sequences put one after the other, and the places of their elements."""
    lengths = starts[rows + 1] - starts[rows]
    own = np.concatenate([[0], lengths.cumsum()])
    return own, np.arange(own[-1]) + np.repeat(starts[rows] - own[:-1], lengths)


def joined(sequences: Sequence[Items]) -> tuple[Integers, Items]:
    """Sequences one after the other: their starts and their elements."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in sequences], dtype=np.int64)]).astype(
        np.int64
    )
    return starts, np.concatenate([np.zeros(0, np.int32), *sequences]).astype(np.int32)


def without_unknown(starts: Integers, items: Items) -> tuple[Integers, Items]:
    """The same sequences without items of -1."""
    known = items >= 0
    if known.all():
        return starts, items
    before = np.concatenate([[0], known.cumsum()])
    return before[starts], items[known]


def _check_finite(model: StateModel) -> None:
    for name, values in {**model.state_dict(), "item vectors": model.inputs()}.items():
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise ArtifactError(
                f"states: {name} of the model holds NaN or infinite numbers, and every state would become NaN; train "
                "the model again"
            )
