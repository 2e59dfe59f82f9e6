"""Matrix factorisation: a vector per user, a vector per item; who was not there is folded in from the history."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel


@dataclass(frozen=True)
class MFConfig(ModelConfig):
    """Sizes, and how others are folded in: what weight unmet items have, and how firmly vectors are held small."""

    max_history: int = 10_000
    n_users: int = 0
    width: int = 64
    unmet: float = 0.05
    ridge: float = 1.0


class MF(VectorModel):
    """Known users bring their own vector; others get the one that explains their history best, by least squares.

    For a history h it solves (unmet * Q'Q + sum over h of qq' + ridge) p = sum over h of q, where Q are the vectors of
    all items. Somebody unknown without a history is the mean of all users.
    """

    Config = MFConfig
    config: MFConfig
    gram: Tensor
    usual: Tensor
    met: Tensor  # [n_users] whether a user was there in training

    def __init__(self, config: MFConfig) -> None:
        super().__init__(config)
        self.people = nn.Embedding(config.n_users, config.width)
        self.items = nn.Embedding(config.n_items, config.width)
        self.register_buffer("gram", torch.zeros(config.width, config.width))
        self.register_buffer("usual", torch.zeros(config.width))
        self.register_buffer("met", torch.zeros(config.n_users, dtype=torch.bool))
        for table in (self.people, self.items):
            nn.init.normal_(table.weight, std=0.1)

    @torch.no_grad()
    def settle(self, met: Tensor) -> None:
        """Make ready to answer: what folding in needs of all items, and the mean over the users who met anything."""
        self.met.copy_(met)
        self.gram.copy_(self.items.weight.T @ self.items.weight)
        if bool(met.any()):
            self.usual.copy_(self.people.weight[met].mean(0))

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        folded = self._folded(self.read(history))
        if user is None or not self.config.n_users:
            return folded
        row, known = who(user, self.met)
        return torch.where(known[:, None], self.people(row), folded)

    def vectors(self) -> Tensor:
        return self.items.weight

    def _folded(self, history: Tensor) -> Tensor:
        there = (history >= 0)[..., None]
        met = self.items(history.clamp(min=0)) * there  # [U, K, D]
        eye = torch.eye(self.config.width, device=met.device)
        seen = (
            met.transpose(1, 2) @ met + self.config.unmet * self.gram + self.config.ridge * eye
        )  # [U, D, D]
        found = torch.linalg.solve(seen, met.sum(1))
        return torch.where(there.any(1), found, self.usual)


def who(user: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [U] that can be looked up, and whether each is a user who was there in training; -1 is unknown."""
    row = user.clamp(0, len(met) - 1)
    return row, (user == row) & met[row]
