"""How much smaller a sampled softmax loss is than the full one: lemma 3 of the DTR paper, mended, and measured.

With shares p of the full softmax, a positive of share p_pos and M negatives drawn by q, the gap is
E[-log(p_pos + (1/M) sum p_i / q_i)]. The paper bounds it by KL(Q || P). KL(Q || P+) with p+_i = p_i + p_pos q_i does so
too, is never larger, equals the gap for M = 1, and is 0 where draws follow the model. The delta estimate
(sum p^2 / q - (1 - p_pos)^2) / (2 M) is what the gap comes to for many draws.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.diagnose.tree.heap import FINITE, NOTHING, level_values
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.train.tree import TreeSampler, log_proposal

SAMPLERS = ("uniform", "tree")
CELLS = 1 << 22  # numbers drawn at a time
ONCE = 256  # instances whose levels are looked at together


@dataclass(frozen=True)
class SamplerGap:
    """Means over instances of what lemma 3 speaks of, in nats."""

    kl: float
    kl_plus: float
    delta: float
    gap: float  # Monte Carlo
    error: float  # its standard error
    loss: float  # the full softmax loss itself
    positive: float  # p_pos
    instances: int
    negatives: int

    def terms(self) -> tuple[BoundTerm, ...]:
        """Each as a term of a bound, beside what it bounds."""
        told = (
            ("lemma 3", self.kl, "KL(Q || P)", "paper"),
            ("lemma 3", self.kl_plus, "KL(Q || P+)", "corrected"),
            ("delta", self.delta, "(sum p^2 / q - (1 - p_pos)^2) / (2 M)", "estimate"),
            ("gap", self.gap, "full loss - mean sampled loss", "measured"),
        )
        said = (f"standard error {self.error:.2g} on {self.instances} instances",)
        return tuple(
            BoundTerm(name, value, formula, how, value >= self.loss, None, said if name == "gap" else ())
            for name, value, formula, how in told
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def sampler_gap(
    scores: Tensor, positive: Tensor, q: Tensor, negatives: int, draws: int = 200, seed: int = 0
) -> SamplerGap:
    """Lemma 3 for instances: scores [n, N], the positive's column [n], chances of all columns to be drawn [n, N].

    What q gives the positive is not drawn: the rest is taken in proportion. A column without a node has score -inf.
    """
    logp = scores.double().log_softmax(1)
    own = logp.gather(1, positive[:, None])  # [n, 1]
    q = _negatives(q.double().masked_fill(logp == NOTHING, 0.0), positive)
    there = q > 0
    p = logp.exp()
    plus = p + own.exp() * q
    ratio = torch.where(there, p / q, 0.0)  # [n, N]
    kl = torch.where(there, q * (q.log() - logp), 0.0).sum(1)
    kl_plus = torch.where(there, q * (q.log() - plus.log()), 0.0).sum(1).clamp(min=0.0)  # but for rounding
    second = torch.where(there, p * ratio, 0.0).sum(1)
    delta = (second - torch.where(there, p, 0.0).sum(1) ** 2) / (2 * negatives)
    gap, error = _drawn(own.exp(), ratio, q, negatives, draws, seed)
    return SamplerGap(
        kl=float(kl.mean()),
        kl_plus=float(kl_plus.mean()),
        delta=float(delta.mean()),
        gap=gap,
        error=error,
        loss=float(-own.mean()),
        positive=float(own.exp().mean()),
        instances=len(scores),
        negatives=negatives,
    )


def plus_shares(scores: Tensor, positive: Tensor, q: Tensor) -> Tensor:
    """p+ [n, N]: what takes the place of the softmax's shares, 0 for the positive; sums to 1 over the negatives."""
    p, q = scores.double().softmax(1), _negatives(q.double(), positive)
    shares = p + p.gather(1, positive[:, None]) * q
    return shares.scatter(1, positive[:, None], 0.0)


def _negatives(q: Tensor, positive: Tensor) -> Tensor:
    """Chances of the negatives alone, which sum to 1."""
    others = q.scatter(1, positive[:, None], 0.0)
    total = others.sum(1, keepdim=True)
    if not bool((total > 0).all()) or bool((others < 0).any()):
        raise DataError(
            "sampler gap: every instance needs a negative that can be drawn, and no chance below 0"
        )
    return others / total


def _drawn(
    own: Tensor, ratio: Tensor, q: Tensor, negatives: int, draws: int, seed: int
) -> tuple[float, float]:
    """The Monte Carlo mean of the gap over instances and draws, and its standard error for these instances."""
    generator = torch.Generator(q.device).manual_seed(seed)
    each = max(1, min(draws, CELLS // max(negatives * len(q), 1)))
    total, square, done = torch.zeros_like(own[:, 0]), torch.zeros_like(own[:, 0]), 0
    while done < draws:
        now = min(each, draws - done)
        picked = torch.multinomial(q, now * negatives, replacement=True, generator=generator)
        mean = ratio.gather(1, picked).view(len(q), now, negatives).mean(2)
        value = -(own + mean).log()  # [n, now]
        total, square, done = total + value.sum(1), square + value.square().sum(1), done + now
    means = total / draws
    spread = (square / draws - means**2).clamp(min=0) / max(draws - 1, 1)
    return float(means.mean()), math.sqrt(float(spread.sum())) / len(q)


@dataclass(frozen=True)
class LevelGap:
    """A level of a tree under one sampler; a level that is taken whole has no gap."""

    sampler: str
    level: int
    size: int
    whole: bool
    found: SamplerGap

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        told = {"sampler": self.sampler, "level": self.level, "size": self.size, "whole": self.whole}
        return told | self.found.as_dict()


def sampler_levels(
    index: TreeIndex,
    histories: Tensor,
    labels: Tensor,
    negatives: int = 70,
    mix: float = 0.0,
    samplers: Sequence[str] = SAMPLERS,
    draws: int = 50,
    seed: int = 0,
) -> list[LevelGap]:
    """Lemma 3 on every taught level of a tree, for uniform and for tree-based draws: histories [n, K], labels [n].

    The specification asks for 200 instances or more. Labels without a leaf are left out.
    """
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    kept = leaves >= 0
    if not bool(kept.any()):
        raise DataError("sampler gap: expected instances whose item is in the tree, got none")
    histories, leaves = histories[kept], leaves[kept]
    levels = tuple(range(index.first, shape.height + 1))
    first = TreeSampler(negatives).first(shape, levels)
    found: dict[tuple[str, int], list[SamplerGap]] = {}
    for start in range(0, len(leaves), ONCE):
        some = slice(start, start + ONCE)
        values = level_values(index, histories[some])
        filled = {level: values[level].clamp(min=FINITE) for level in range(first, shape.height + 1)}
        walked = log_proposal(shape, filled, first, mix) if "tree" in samplers else {}
        for sampler in samplers:
            for level in levels:
                whole = shape.sizes[level] <= negatives + 1
                uniform = sampler == "uniform" or level < first
                q = (values[level] > NOTHING).double() if uniform else walked[level].exp()
                at = shape.ancestor(leaves[some], level)
                one = _whole(values[level], at, negatives) if whole else None
                one = one or sampler_gap(values[level], at, q, negatives, draws, seed + start + level)
                found.setdefault((sampler, level), []).append(one)
    return [
        LevelGap(sampler, level, shape.sizes[level], shape.sizes[level] <= negatives + 1, _pooled(parts))
        for (sampler, level), parts in found.items()
    ]


def _whole(scores: Tensor, positive: Tensor, negatives: int) -> SamplerGap:
    """A level of which every node is taken: nothing is left to chance."""
    own = scores.double().log_softmax(1).gather(1, positive[:, None])
    loss, share = float(-own.mean()), float(own.exp().mean())
    return SamplerGap(0.0, 0.0, 0.0, 0.0, 0.0, loss, share, len(scores), negatives)


def _pooled(parts: Sequence[SamplerGap]) -> SamplerGap:
    """The mean over all instances."""
    count = sum(one.instances for one in parts)

    def mean(name: str) -> float:
        return math.fsum(getattr(one, name) * one.instances for one in parts) / count

    error = math.sqrt(math.fsum((one.error * one.instances) ** 2 for one in parts)) / count
    return SamplerGap(
        kl=mean("kl"),
        kl_plus=mean("kl_plus"),
        delta=mean("delta"),
        gap=mean("gap"),
        error=error,
        loss=mean("loss"),
        positive=mean("positive"),
        instances=count,
        negatives=parts[0].negatives,
    )
