"""Base class of models whose user vector follows events one at a time."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.models.model import VectorModel

NO_ITEM = -1  # the last item of a user without events


@dataclass(frozen=True, eq=False)
class RecurrentWeights:
    """A GRU in the layout of `torch.nn.GRU`: rows of the three gates r, z, n one after the other.

    r, z = sigmoid(W x + U s + biases); n = tanh(W x + b + r (U s + b')); s' = (1 - z) n + z s.
    """

    w_input: Tensor  # [3D, D], or [3D, 2D] if the start vector of the user is an input too
    w_state: Tensor  # [3D, D]
    b_input: Tensor  # [3D]
    b_state: Tensor  # [3D]


@dataclass(frozen=True, eq=False)
class Promotion:
    """How a user who passes the threshold after the training gets a vector of their own.

    It is fitted to all but the `last` events with item vectors frozen; `prior` is the weight of the squared distance
    from `mean`. The active recurrence then replays the last events.
    """

    threshold: int
    last: int
    prior: float
    mean: Tensor  # [D]


class StateModel(VectorModel):
    """A vector model with a recurrent state for every user: one event costs O(D^2), whatever the history.

    Users are rows of the training data; -1 is a user it does not know. Each belongs to one of two groups with a
    recurrence of its own: `active` users begin with a vector of their own, all others with a common one. The events
    before `base_events` of an active user are in its start vector; its state follows the later ones.
    """

    @property
    @abstractmethod
    def state_width(self) -> int:
        """D, the width of states, user vectors and item vectors."""

    @abstractmethod
    def active(self, users: Tensor) -> Tensor:
        """Whether users [U] begin with a vector of their own [U]."""

    @abstractmethod
    def base_events(self, users: Tensor) -> Tensor:
        """How many first events of each user [U] are in its start vector; 0 for users who are not active [U]."""

    @abstractmethod
    def personal(self, users: Tensor) -> Tensor:
        """The vectors of active users, zeros for all others [U, D]."""

    @abstractmethod
    def starts_of(self, active: Tensor, personal: Tensor) -> Tensor:
        """States [U, D] before the first event after the base, by group [U] and personal vector [U, D]."""

    @abstractmethod
    def inputs(self) -> Tensor:
        """What the recurrences read of each item [N, D]; the item vectors."""

    @abstractmethod
    def recurrence(self, active: bool) -> RecurrentWeights:
        """The weights of the recurrence of a group."""

    @abstractmethod
    def readout_of(self, states: Tensor, last_items: Tensor, active: Tensor, personal: Tensor) -> Tensor:
        """User vectors [U, D] from states [U, D], the last item of each user [U], -1 = none, and his group.

        Users who became active after the training have personal vectors that the model does not hold.
        """

    def promotion(self) -> Promotion | None:
        """How users become active after the training; None if they do not."""
        return None

    def starts(self, users: Tensor) -> Tensor:
        """States before the first event after the base [U, D]."""
        return self.starts_of(self.active(users), self.personal(users))

    def readout(self, states: Tensor, last_items: Tensor, users: Tensor) -> Tensor:
        """User vectors [U, D] from states [U, D] and the item of the last event of each user [U], -1 = none."""
        return self.readout_of(states, last_items, self.active(users), self.personal(users))

    def step(self, states: Tensor, items: Tensor, users: Tensor) -> Tensor:
        """States [U, D] after one event of each user [U]; an item that is none (-1) changes nothing."""
        known = (items >= 0) & (items < self.config.n_items)
        vectors = self.inputs()[items.masked_fill(~known, 0)] if self.config.n_items else states
        active = self.active(users)
        after = states.clone()
        for group in (False, True):
            rows = ((active == group) & known).nonzero()[:, 0]
            weights = self.recurrence(group)
            given = vectors[rows]
            if weights.w_input.shape[1] > given.shape[1]:
                given = torch.cat([given, self.personal(users[rows])], dim=1)
            args = (weights.w_input, weights.w_state, weights.b_input, weights.b_state)
            if len(rows):
                after[rows] = torch.gru_cell(given, states[rows], *args)
        return after
