"""Systems with the same number of nominators, played side by side on the same rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.nominate.pools import Pools
from shortlist.simulate.bandit.draws import MASKS, POLICY, SINGLE, TIES, Normals, generator, nested_masks
from shortlist.simulate.bandit.ridge import BatchRidge
from shortlist.simulate.bandit.systems import ORACLE, UCB, BanditSettings, MakePools, System
from shortlist.simulate.bandit.worlds import BanditWorld, Round
from shortlist.train.pools import Nominations

CLOSE = 1e-12  # scores this close to the highest are ties


@dataclass(frozen=True, eq=False)
class Played:
    """What the systems did in a round [Q, S]."""

    action: Tensor
    best_candidate: Tensor
    candidates: Tensor  # [Q, S, N]


class Group:
    """The state of Q systems on S seeds; all share the pools and the orders of features of a seed."""

    def __init__(
        self,
        world: BanditWorld,
        systems: Sequence[System],
        seeds: Sequence[int],
        settings: BanditSettings,
        make: MakePools,
        masks: NDArray[np.float64] | None = None,
    ) -> None:
        self.systems, self.settings = systems, settings
        self.n_nominators, self.single = systems[0].n_nominators, systems[0].ranker is None
        pools = [make(world.arms, self.n_nominators, seed) for seed in seeds]
        self.pools = torch.from_numpy(np.stack([one.matrix for one in pools])).to(
            settings.device
        )  # [S, N, A]
        self.arms, self.valid = _padded(pools, settings.device)  # [S, N, P]
        shape = (len(systems), len(seeds), self.n_nominators)
        shown = self._masks(seeds, world.width) if masks is None else torch.from_numpy(masks)
        same: dict[str, Any] = {
            "dtype": settings.dtype,
            "device": settings.device,
            "penalty": settings.penalty,
        }
        self.nominators = BatchRidge(shape, world.width, mask=shown, **same)
        self.ranker = None if self.single else BatchRidge(shape[:2], world.width, **same)
        self.alpha = self._alphas(settings.alpha_nominator, [one.nominator for one in systems])
        self.alpha_ranker = self._alphas(settings.alpha_ranker, [one.ranker for one in systems])
        self.oracle = torch.tensor([one.ranker == ORACLE for one in systems], device=settings.device)
        self._keys = self._normals(seeds, TIES, (2, world.arms)) if settings.tie == "random" else None
        self._policy = [generator(seed, POLICY, self.n_nominators) for seed in seeds]
        self._rows = torch.arange(len(seeds), device=settings.device)

    def step(self, round_: Round) -> Played:
        """Plays one round and learns from its reward."""
        keys = None if self._keys is None else self._keys.next()  # [S, 2, A]
        greedy = self._nominate(round_.contexts, keys)  # [Q, S, N]
        candidates = self._explored(greedy)
        place, scores = self._rank(round_, candidates, keys)  # [Q, S]
        action = candidates.gather(2, place[..., None]).squeeze(-1)
        means = self._of_arms(round_.means, candidates)
        best = candidates.gather(2, means.argmax(2, keepdim=True)).squeeze(-1)
        self._learn(round_, action, candidates, greedy, scores)
        return Played(action, best, candidates)

    def _nominate(self, contexts: Tensor, keys: Tensor | None) -> Tensor:
        inside = contexts[self._rows[:, None, None], self.arms]  # [S, N, P, D]
        scores = self.nominators.scores(inside, self.alpha).masked_fill(~self.valid, -torch.inf)
        own = None if keys is None else keys[:, 0][self._rows[:, None, None], self.arms]
        place = _highest(scores, own)
        return self.arms.expand(len(self.systems), -1, -1, -1).gather(3, place[..., None]).squeeze(-1)

    def _explored(self, greedy: Tensor) -> Tensor:
        """With probability epsilon any item of the pool instead; the same coins for all systems."""
        if not self.settings.epsilon:
            return greedy
        coins = np.stack([one.random((self.n_nominators, 2)) for one in self._policy])  # [S, N, 2]
        sizes = self.valid.sum(-1)
        drawn = torch.from_numpy(coins).to(sizes.device)
        place = (drawn[..., 1] * sizes).long().clamp(max=sizes - 1)
        other = self.arms.gather(2, place[..., None]).squeeze(-1)  # [S, N]
        return torch.where(drawn[..., 0] < self.settings.epsilon, other.expand_as(greedy), greedy)

    def _rank(self, round_: Round, candidates: Tensor, keys: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The place of the chosen candidate, and the ranker's scores of all arms where weights need them."""
        if self.ranker is None:
            return torch.zeros_like(candidates[..., 0]), None
        chosen = round_.contexts[self._rows[None, :, None], candidates]  # [Q, S, N, D]
        scores = self.ranker.scores(chosen, self.alpha_ranker)
        if bool(self.oracle.any()):
            means = self._of_arms(round_.means, candidates).to(scores)
            scores = torch.where(self.oracle[:, None, None], means, scores)
        own = None if keys is None else keys[:, 1][self._rows[None, :, None], candidates]
        every = None
        if self.settings.rule.needs_propensities:
            every = self.ranker.scores(round_.contexts, self.alpha_ranker)
            every = torch.where(self.oracle[:, None, None], round_.means.to(every), every)
        return _highest(scores, own), every

    def _learn(
        self, round_: Round, action: Tensor, candidates: Tensor, greedy: Tensor, scores: Tensor | None
    ) -> None:
        x = round_.contexts[self._rows, action]  # [Q, S, D]
        reward = self._of_arms(round_.rewards, action)
        weights = None
        if self.settings.rule.kind != "all":
            known = self._known(action, candidates, greedy, scores)
            weights = self.settings.rule.weights(known)
        self.nominators.update(x[:, :, None], reward[..., None], weights)
        if self.ranker is not None:
            self.ranker.update(x, reward)

    def _known(
        self, action: Tensor, candidates: Tensor, greedy: Tensor, scores: Tensor | None
    ) -> Nominations:
        in_pool = self.pools.permute(0, 2, 1)[self._rows, action]  # [Q, S, N]
        picked = candidates == action[..., None]
        if scores is None:
            return Nominations(in_pool, picked)
        epsilon = self.settings.epsilon
        uniform = epsilon * in_pool / self.valid.sum(-1)
        own = uniform + (1 - epsilon) * (greedy == action[..., None])
        return Nominations(in_pool, picked, own, self._shown(scores, action, greedy))

    def _shown(self, scores: Tensor, action: Tensor, greedy: Tensor) -> Tensor:
        """Probability that the ranker showed an arm: nobody nominates a better one, and somebody nominates it."""
        its = scores.gather(2, action[..., None])[..., None]  # [Q, S, 1, 1]
        pools = self.pools[None]
        every, of_greedy = scores[:, :, None], scores.gather(2, greedy)
        below = ((every < its) & pools).sum(-1) / pools.sum(-1)
        not_above = ((every <= its) & pools).sum(-1) / pools.sum(-1)
        epsilon, its = self.settings.epsilon, its.squeeze(-1)
        strictly = epsilon * below + (1 - epsilon) * (of_greedy < its)
        at_most = epsilon * not_above + (1 - epsilon) * (of_greedy <= its)
        return at_most.prod(-1) - strictly.prod(-1)

    def _of_arms(self, values: Tensor, arms: Tensor) -> Tensor:
        """Values [S, A] of arms [Q, S, ...]."""
        rows = self._rows.reshape(1, -1, *(1,) * (arms.ndim - 2))
        return values[rows, arms]

    def _masks(self, seeds: Sequence[int], width: int) -> Tensor:
        purpose = SINGLE if self.single else MASKS
        order = torch.from_numpy(nested_masks(seeds, self.n_nominators, width, purpose))  # [S, N, D]
        if self.settings.same_masks:
            order = order[:, :1].expand_as(order)
        return torch.stack([order < one.subset for one in self.systems])  # [Q, S, N, D]

    def _alphas(self, alpha: float, policies: Sequence[str | None]) -> Tensor:
        return torch.tensor([alpha if one == UCB else 0.0 for one in policies], dtype=torch.float64)

    def _normals(self, seeds: Sequence[int], purpose: int, shape: tuple[int, ...]) -> Normals:
        return Normals(seeds, purpose, shape, dtype=torch.float64, device=self.settings.device)


def _padded(pools: Sequence[Pools], device: str) -> tuple[Tensor, Tensor]:
    """Arms of the pools of every seed, padded to the largest [S, N, P]."""
    parts = [one.padded() for one in pools]
    largest = max(valid.shape[1] for _, valid in parts)
    widths = [(0, 0), (0, 0)]
    arms, valid = (
        np.stack([np.pad(part, [widths[0], (0, largest - part.shape[1])]) for part in side])
        for side in zip(*parts, strict=True)
    )
    return torch.from_numpy(arms).to(device), torch.from_numpy(valid).to(device)


def _highest(scores: Tensor, keys: Tensor | None) -> Tensor:
    """The place of the highest score; of ties the first, or the one with the highest key."""
    if keys is None:
        return scores.argmax(-1)
    top = scores.amax(-1, keepdim=True)
    tied = scores >= top - CLOSE * top.abs().clamp(min=1)
    return keys.to(scores).expand_as(scores).masked_fill(~tied, -torch.inf).argmax(-1)
