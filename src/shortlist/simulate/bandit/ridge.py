"""Many ridge regressions side by side, updated by one example each."""

import math
import warnings
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from shortlist.errors import ConfigError

SAFE_PENALTY = 1e-2  # below it, rounding of float32 adds up and the inverse is renewed
RENEWED = 256  # updates between two renewals there


class BatchRidge:
    """Ridge regressions with the inverse `sigma` of their regularised second moments and coefficients `theta`.

    `mask` has ones for the features a regression may use; its other coefficients stay exactly 0, so that full
    feature vectors may be passed everywhere. An example of weight 0 changes no bit. With `refresh_every` the moments
    are kept too, and their inverse is computed anew after so many updates.
    """

    def __init__(
        self,
        shape: Sequence[int],
        width: int,
        *,
        penalty: float = 1.0,
        mask: Tensor | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
        refresh_every: int | None = None,
    ) -> None:
        if not (math.isfinite(penalty) and penalty > 0):
            raise ConfigError(f"ridge: expected a penalty above 0, got {penalty}")
        self.shape, self.width, self.penalty = tuple(shape), width, penalty
        ones = torch.ones((*self.shape, width), dtype=dtype, device=device)
        self.mask = ones if mask is None else mask.to(ones).expand_as(ones)
        self.sigma = torch.diag_embed(self.mask / penalty)  # [..., D, D]
        self.theta = torch.zeros_like(ones)  # [..., D]
        self.refresh_every = refreshed_every(penalty, dtype) if refresh_every is None else refresh_every
        self.moments = torch.diag_embed(self.mask * penalty) if self.refresh_every else None
        self._updates = 0

    def scores(self, x: Tensor, alpha: Tensor | float = 0.0) -> Tensor:
        """Predicted rewards of x [..., P, D] plus `alpha` standard errors.

        `alpha` is one number, or one for each row of the first axis. Where x lacks that axis, its rows share x.
        """
        shared = x.ndim == self.sigma.ndim - 1
        predicted = (
            (x @ self.theta.movedim(0, -1)).movedim(-1, 0)
            if shared
            else (x @ self.theta[..., None]).squeeze(-1)
        )
        alphas = torch.as_tensor(alpha).expand(len(predicted)).tolist()
        # Runs of equal alphas together: one product for each of them, none where alpha is 0.
        first = 0
        for one, rows in groupby(alphas):
            last = first + len(list(rows))
            if one:
                own = x if shared else x[first:last]
                predicted[first:last] += one * _spread(own, self.sigma[first:last])
            first = last
        return predicted

    def width_of(self, x: Tensor) -> Tensor:
        """The standard error of a prediction, up to the noise [..., P]."""
        return _spread(x, self.sigma)

    def update(self, x: Tensor, reward: Tensor, weight: Tensor | None = None) -> None:
        """One example for each regression: x [..., D], reward [...], weight [...]; axes of size 1 are repeated."""
        moved = (self.sigma @ x[..., None]).squeeze(-1)  # [..., D]
        quadratic = (moved * x).sum(-1).clamp(min=0)
        factor = (
            1 / (1 + quadratic)
            if weight is None
            else weight.to(quadratic) / (1 + weight.to(quadratic) * quadratic)
        )
        error = reward - (self.theta * x).sum(-1)
        self.theta.add_(moved * (factor * error)[..., None])
        step = moved * factor.sqrt()[..., None]
        # The outer product of one vector: sigma stays symmetric to the last bit.
        self.sigma.addcmul_(step[..., :, None], step[..., None, :], value=-1)
        self._refresh(x, weight)

    def _refresh(self, x: Tensor, weight: Tensor | None) -> None:
        if self.moments is None:
            return
        inside = (x * self.mask) * (1.0 if weight is None else weight.to(x).sqrt()[..., None])
        self.moments.addcmul_(inside[..., :, None], inside[..., None, :])
        self._updates += 1
        if self._updates % self.refresh_every == 0:
            factor = torch.linalg.cholesky(self.moments + torch.diag_embed(1 - self.mask))
            self.sigma = torch.cholesky_inverse(factor) * self.mask[..., :, None] * self.mask[..., None, :]

    def state_dict(self) -> dict[str, Tensor]:
        """Coefficients and the inverse, by name."""
        return {"theta": self.theta, "sigma": self.sigma}


def refreshed_every(penalty: float, dtype: torch.dtype) -> int:
    """Updates between two renewals of the inverse that this penalty needs; 0: none."""
    if penalty >= SAFE_PENALTY:
        return 0
    if dtype == torch.float32:
        warnings.warn(
            f"ridge: a penalty of {penalty:g} with float32 adds up rounding errors; the inverse is computed anew "
            f"every {RENEWED} updates; use float64 or a penalty of at least {SAFE_PENALTY:g}",
            stacklevel=3,
        )
    return RENEWED


def _spread(x: Tensor, sigma: Tensor) -> Tensor:
    return ((x @ sigma) * x).sum(-1).clamp(min=0).sqrt()
