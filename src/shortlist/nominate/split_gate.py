"""A gate of nominators: how a request's limits differ from those of all requests."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.artifact.tensor_checks import check_floats, check_shape
from shortlist.data import Query
from shortlist.nominate.pooled import mean_factors

LAST = 50  # events of a history that count
PREFIX = "gate."  # of its tensors


@dataclass(frozen=True, eq=False)
class SplitGate:
    """A softmax over nominators, linear in the request's features, relative to its mean over training requests.

    Features are the mean item factors of the recent history and the logarithm of its length. A request without a
    history has the limits of all requests.
    """

    factors: Tensor  # [A, F]
    scale: Tensor  # [2, F + 1] mean and standard deviation of features
    weights: Tensor  # [F + 2, N], the last row is the bias
    mean: Tensor  # [N] of the softmax over the training requests

    def __call__(self, query: Query) -> Tensor:
        """What the limits are multiplied by [B, N]."""
        relative = softmax(self.features(query), self.weights) / self.mean
        return torch.where((query.history >= 0).any(1, keepdim=True), relative, 1.0)

    def features(self, query: Query) -> Tensor:
        """Standardised features of every request [B, F + 1]."""
        return (described(self.factors, query) - self.scale[0]) / self.scale[1]

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors, as in an artifact."""
        return {f"{PREFIX}{name}": one for name, one in vars(self).items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "SplitGate | None":
        """The gate with these tensors, or None without any."""
        if not tensors:
            return None
        names = ("factors", "scale", "weights", "mean")
        return cls(*(tensors[f"{PREFIX}{name}"] for name in names))

    def check(self, n_items: int, n_nominators: int) -> None:
        """Raise ArtifactError where its tensors do not fit these numbers or each other."""
        check_shape(f"{PREFIX}factors", self.factors, n_items, None)
        width = self.factors.shape[1] + 1
        check_shape(f"{PREFIX}scale", self.scale, 2, width)
        check_shape(f"{PREFIX}weights", self.weights, width + 1, n_nominators)
        check_shape(f"{PREFIX}mean", self.mean, n_nominators)
        for name, one in self.tensors().items():
            check_floats(name, one)


def described(factors: Tensor, query: Query) -> Tensor:
    """Mean factors of the last events and the logarithm of their number [B, F + 1]."""
    recent = query.history[:, -LAST:]
    means, _ = mean_factors(factors, recent)
    return torch.cat([means, (recent >= 0).sum(1, keepdim=True).float().log1p()], dim=1)


def softmax(features: Tensor, weights: Tensor) -> Tensor:
    """The share of each nominator [B, N].

    In double precision, so that a request alone and in a batch has the same limits.
    """
    return logits(features.double(), weights.double()).softmax(1).float()


def logits(features: Tensor, weights: Tensor) -> Tensor:
    """Linear in the features, with a bias [B, N]."""
    return F.pad(features, (0, 1), value=1.0) @ weights
