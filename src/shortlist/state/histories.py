"""The items of every user of a bundle."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class UserHistories:
    """All items of every known user: user u owns items[starts[u]:starts[u + 1]], oldest first.

    The measured pipeline was trained on the first `trained[u]` events of user u; without it, on all.
    """

    starts: Tensor  # [U + 1]
    items: Tensor  # [E]
    trained: Tensor | None = None  # [U]

    def of(self, user: int) -> list[int]:
        """The item rows of one user, none for an unknown one."""
        if user < 0:
            return []
        start, stop = self.starts[user : user + 2].tolist()
        history: list[int] = self.items[start:stop].tolist()
        return history
