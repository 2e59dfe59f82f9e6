"""A mixture of nominators: experts that predict outcomes, and a gate that says which of them counts for what."""

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.mixture.experts import Experts
from shortlist.models.mixture.gate import Gate

OUTCOMES = ("gaussian", "bernoulli")
LEAST_SIGMA = 0.05
USUAL_SIGMA = 0.309  # sqrt(p (1 - p)) of outcomes 0 and 1 of which 10.73 % are 1


class PoolMixture(nn.Module):
    """p(r | x, a) = sum over n of p_n(x, a) times the density of r around the prediction of expert n.

    `gaussian`: standard deviation `sigma`, one for all experts or one for each; it is fixed unless `learn_sigma`, and
    the likelihood has its normaliser only then. `bernoulli`: predictions are probabilities, logistic in the expert's
    score; for outcomes 0 and 1 this likelihood is the log loss of the mixture mean, so experts do not compete to
    explain single outcomes.
    """

    log_sigma: Tensor  # [1] or [N]
    widening: Tensor  # [] factor of sigma during training

    def __init__(
        self,
        experts: Experts,
        gate: Gate,
        sigma: float | Tensor = USUAL_SIGMA,
        *,
        outcome: str = "gaussian",
        learn_sigma: bool = False,
    ) -> None:
        super().__init__()
        _check(experts, gate, outcome)
        self.experts, self.gate, self.outcome, self.learn_sigma = experts, gate, outcome, learn_sigma
        log_sigma = torch.as_tensor(sigma, dtype=torch.get_default_dtype()).reshape(-1).log()
        if len(log_sigma) not in (1, experts.n_experts):
            raise ConfigError(
                f"mixture: expected one sigma, or one for each of {experts.n_experts} nominators, got {len(log_sigma)}"
            )
        if not log_sigma.is_meta and not bool(log_sigma.isfinite().all()):
            raise ConfigError(f"mixture: expected a sigma above 0, got {sigma}")
        if learn_sigma:
            self.log_sigma = nn.Parameter(log_sigma)
        else:
            self.register_buffer("log_sigma", log_sigma)
        self.register_buffer("widening", torch.ones(()), persistent=False)

    @property
    def n_experts(self) -> int:
        return self.experts.n_experts

    @property
    def n_items(self) -> int:
        return self.experts.n_items

    @property
    def sigma(self) -> Tensor:
        """The standard deviation of outcomes around a prediction [1] or [N]."""
        least = math.log(LEAST_SIGMA) if self.learn_sigma else -torch.inf
        return self.log_sigma.clamp(min=least).exp() * self.widening

    def reset(self) -> Self:
        """New initial values of experts and gate, by torch's random numbers."""
        self.experts.reset()
        self.gate.reset()
        return self

    def predictions(self, contexts: Tensor, items: Tensor) -> Tensor:
        """Outcomes predicted by the experts [..., N] of items [B] or [B, K]."""
        return self.linked(self.experts(contexts, items))

    def linked(self, scores: Tensor) -> Tensor:
        """Outcomes from the scores of experts."""
        return scores.sigmoid() if self.outcome == "bernoulli" else scores

    def log_density(self, scores: Tensor, rewards: Tensor) -> Tensor:
        """log density of rewards [B] given each expert [B, N], without the normaliser of a fixed sigma."""
        if self.outcome == "bernoulli":
            return -F.binary_cross_entropy_with_logits(
                scores, rewards[:, None].expand(scores.shape), reduction="none"
            )
        sigma = self.sigma
        squares = (rewards[:, None] - scores) ** 2 / (2 * sigma**2)
        return -squares - sigma.log() if self.learn_sigma else -squares

    def log_joint(self, contexts: Tensor, items: Tensor, rewards: Tensor) -> Tensor:
        """log p_n(x, a) + log density of the reward given expert n [B, N]; -inf outside a pool."""
        log_p: Tensor = self.gate(contexts, items)
        return log_p + self.log_density(self.experts(contexts, items), rewards)

    def log_likelihood(self, contexts: Tensor, items: Tensor, rewards: Tensor) -> Tensor:
        """The log-likelihood of each reward [B]."""
        return self.log_joint(contexts, items, rewards).logsumexp(-1)

    def responsibilities(self, contexts: Tensor, items: Tensor, rewards: Tensor) -> Tensor:
        """The posterior probability of each expert given the reward [B, N]."""
        return self.log_joint(contexts, items, rewards).softmax(-1)

    def mixture_mean(self, contexts: Tensor, items: Tensor) -> Tensor:
        """Expected outcomes of items [B] or [B, K], in their shape."""
        log_p: Tensor = self.gate(contexts, items)
        return (log_p.exp() * self.predictions(contexts, items)).sum(-1)

    def mixture_scores(self, contexts: Tensor) -> Tensor:
        """Expected outcomes of every item [B, A]."""
        return (self.gate.all(contexts).exp() * self.linked(self.experts.all(contexts))).sum(-1)


def balance_loss(log_p: Tensor) -> Tensor:
    """N times the sum over nominators of mean weight times share of examples where it is the largest; 1 if uniform.

    `log_p` [B, N] are the log weights of a gate (Fedus et al., 2022). Only the mean weights have a gradient.
    """
    n_experts = log_p.shape[-1]
    largest = F.one_hot(log_p.argmax(-1), n_experts).to(log_p.dtype).mean(0)
    loss: Tensor = (log_p.exp().mean(0) * largest).sum()
    return n_experts * loss


def effective_experts(load: Tensor) -> Tensor:
    """exp of the entropy of mean weights [..., N]: how many equally used experts would be as even."""
    shares = load / load.sum(-1, keepdim=True)
    return (-torch.xlogy(shares, shares).sum(-1)).exp()


def _check(experts: Experts, gate: Gate, outcome: str) -> None:
    if outcome not in OUTCOMES:
        raise ConfigError(f"mixture: expected outcomes {' or '.join(OUTCOMES)}, got {outcome!r}")
    own, other = (experts.n_experts, experts.n_items), (gate.n_experts, gate.n_items)
    if own != other:
        raise ConfigError(f"mixture: the experts are (nominators, items) {own}, the gate is {other}")
