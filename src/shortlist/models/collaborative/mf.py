"""Matrix factorisation: one vector per user and per item; unknown users are folded in from their history."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel
from shortlist.settings import setting


@dataclass(frozen=True)
class MFConfig(ModelConfig):
    """Sizes, and how users without a vector of their own are folded in."""

    max_history: int = 10_000
    n_users: int = setting(0, "Number of users.", least=0, derived=True)
    width: int = setting(64, "Width of the user and item vectors.", least=1, most=8192)
    unobserved_weight: float = setting(
        0.05, "Weight of items outside the history when a user is folded in.", least=0, most=1
    )
    ridge: float = setting(1.0, "L2 regularisation when a user is folded in.", least=1e-9, most=1e12)


class MF(VectorModel):
    """Matrix factorisation; users outside the training data are folded in by least squares.

    For a history h fold-in solves (w Q'Q + sum over h of qq' + ridge I) p = sum over h of q, where Q are all item
    vectors and w is `unobserved_weight`. An unknown user without a history gets the mean user vector.
    """

    Config = MFConfig
    config: MFConfig
    gram: Tensor  # [D, D]
    mean_user: Tensor  # [D]
    trained_users: Tensor  # [n_users] True for users with training events

    def __init__(self, config: MFConfig) -> None:
        super().__init__(config)
        self.user_embedding = nn.Embedding(config.n_users, config.width)
        self.items = nn.Embedding(config.n_items, config.width)
        self.register_buffer("gram", torch.zeros(config.width, config.width))
        self.register_buffer("mean_user", torch.zeros(config.width))
        self.register_buffer("trained_users", torch.zeros(config.n_users, dtype=torch.bool))
        for table in (self.user_embedding, self.items):
            nn.init.normal_(table.weight, std=0.1)

    @torch.no_grad()
    def finish(self, trained_users: Tensor) -> None:
        """Compute what fold-in needs: the Gram matrix of the items and the mean over `trained_users` [n_users]."""
        self.trained_users.copy_(trained_users)
        self.gram.copy_(self.items.weight.T @ self.items.weight)
        if bool(trained_users.any()):
            self.mean_user.copy_(self.user_embedding.weight[trained_users].mean(0))

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        folded = self._fold_in(self.read(history))
        if user is None or not self.config.n_users:
            return folded
        row, known = known_users(user, self.trained_users)
        return torch.where(known[:, None], self.user_embedding(row), folded)

    def vectors(self) -> Tensor:
        return self.items.weight

    def _fold_in(self, history: Tensor) -> Tensor:
        valid = (history >= 0)[..., None]
        items = self.items(history.clamp(min=0)) * valid  # [U, K, D]
        eye = torch.eye(self.config.width, device=items.device)
        unobserved = self.config.unobserved_weight * self.gram
        system = items.transpose(1, 2) @ items + unobserved + self.config.ridge * eye  # [U, D, D]
        solution = torch.linalg.solve_ex(system, items.sum(1)).result  # not finite if it has none
        return torch.where(valid.any(1), solution, self.mean_user)


def known_users(user: Tensor, trained_users: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [U] that can be looked up, and whether each is a user of the training data; -1 is unknown."""
    row = user.clamp(0, len(trained_users) - 1)
    return row, (user == row) & trained_users[row]
