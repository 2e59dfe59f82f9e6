"""What a model offers whose user state moves with every event."""

from typing import Protocol

from torch import Tensor


class StateModel(Protocol):
    """Keeps a user as one vector: a start, a step for every event, and a user vector that is read from it.

    The event after the state is predicted from `readout` only; then `step` applies it. User rows are -1 for users whom
    the model has never seen, item rows are -1 for none.
    """

    state_width: int  # numbers of a state

    def start(self, users: Tensor) -> Tensor:
        """States before the first event after the start, by user row [U] -> [U, S]."""

    def step(self, states: Tensor, items: Tensor, users: Tensor) -> Tensor:
        """States [U, S] after one event each, of items [U]."""

    def readout(self, states: Tensor, last: Tensor, users: Tensor) -> Tensor:
        """User vectors [U, D] from states [U, S] and the last items [U]."""

    def vectors(self) -> Tensor:
        """Item vectors [N, D]."""

    def base_events(self, users: Tensor) -> Tensor:
        """How many events of each user its start has seen [U]; 0 for new users."""
