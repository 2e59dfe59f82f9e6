"""A ridge regression for each arm, all with the same context, without a matrix for each arm."""

import torch
from torch import Tensor

from shortlist.errors import DataError


class ArmRidge:
    """Regressions of A arms on S seeds, each with the features of its nominator.

    The inverse second moments of an arm are I/penalty minus a sum of outer products, one for each of its examples.
    Only the vectors of these products are stored: T·D numbers for T examples of all arms, instead of A·D².
    """

    def __init__(self, mask: Tensor, owner: Tensor, examples: int, penalty: float = 1.0) -> None:
        """Features of nominators [S, N, D], the nominator of each arm [S, A], and how many examples there will be."""
        seeds, _, width = mask.shape
        self.mask, self.owner, self.penalty = mask, owner, penalty
        self.theta = mask.new_zeros((seeds, owner.shape[1], width))  # [S, A, D]
        self._products = mask.new_zeros((seeds, examples, width))
        self._arm = owner.new_zeros((seeds, examples))
        self._rows = torch.arange(seeds, device=mask.device)
        self._used = 0

    def scores(self, x: Tensor, alpha: float = 0.0) -> Tensor:
        """Predicted rewards of all arms for contexts x [S, D] plus `alpha` standard errors [S, A]."""
        predicted = torch.bmm(self.theta, x[..., None]).squeeze(-1)
        return predicted + alpha * self.width_of(x) if alpha else predicted

    def width_of(self, x: Tensor) -> Tensor:
        """The standard error of each prediction, up to the noise [S, A]."""
        prior = torch.bmm(self.mask, x.square()[..., None]).squeeze(-1) / self.penalty  # [S, N]
        variance = prior.gather(1, self.owner)
        variance = variance.scatter_add(1, self._arm[:, : self._used], -self._along(x).square())
        return variance.clamp(min=0).sqrt()

    def update(self, x: Tensor, arm: Tensor, reward: Tensor) -> None:
        """One example of each seed: x [S, D], arm [S], reward [S]."""
        if self._used == self._products.shape[1]:
            raise DataError(
                f"ridge of arms: expected at most {self._used} examples, got more; make it for as many as there are"
            )
        shown = x * self.mask[self._rows, self.owner[self._rows, arm]]
        along = self._along(shown) * (self._arm[:, : self._used] == arm[:, None])
        moved = shown / self.penalty - torch.bmm(along[:, None], self._products[:, : self._used]).squeeze(1)
        factor = 1 / (1 + (moved * shown).sum(-1).clamp(min=0))
        error = reward - (self.theta[self._rows, arm] * shown).sum(-1)
        self.theta[self._rows, arm] += moved * (factor * error)[:, None]
        self._products[:, self._used] = moved * factor.sqrt()[:, None]
        self._arm[:, self._used] = arm
        self._used += 1

    def _along(self, x: Tensor) -> Tensor:
        """Inner products of x with the stored vectors [S, T]."""
        return torch.bmm(self._products[:, : self._used], x[..., None]).squeeze(-1)
