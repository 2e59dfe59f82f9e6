"""Systems with the same number of nominators, played side by side as tensors: on a GPU, and with any settings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.simulate.bandit.cpu_kernel import CLOSE
from shortlist.simulate.bandit.draws import POLICY, TIES, Normals, generator
from shortlist.simulate.bandit.played import Played
from shortlist.simulate.bandit.ridge import BatchRidge
from shortlist.simulate.bandit.setup import GroupSetup
from shortlist.simulate.bandit.systems import BanditSettings
from shortlist.simulate.bandit.worlds import Rounds
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for
from shortlist.train.pools import Nominations


class Group:
    """The state of Q systems on S seeds; all share the pools and the orders of features of a seed."""

    def __init__(self, setup: GroupSetup, settings: BanditSettings) -> None:
        self.settings, self.n_nominators = settings, setup.n_nominators
        self.pools, self.arms, self.valid = (
            torch.from_numpy(one).to(settings.device) for one in (setup.in_pool, setup.arms, setup.valid)
        )
        masks = torch.from_numpy(setup.masks.copy())
        same: dict[str, Any] = {
            "dtype": settings.dtype,
            "device": settings.device,
            "penalty": settings.penalty,
        }
        self.nominators = BatchRidge(masks.shape[:3], setup.width, mask=masks, **same)
        self.ranker = None if setup.single else BatchRidge(masks.shape[:2], setup.width, **same)
        self.alpha, self.alpha_ranker = (torch.from_numpy(one) for one in setup.alphas(settings))
        oracle = setup.oracle
        self.oracle = torch.from_numpy(oracle).to(settings.device)[:, None, None] if oracle.any() else None
        self._keys = _keys(setup, settings)
        self._policy = [generator(seed, POLICY, self.n_nominators) for seed in setup.seeds]
        self._rows = torch.arange(len(setup.seeds), device=settings.device)
        self._stream = stream_for(torch.device(settings.device))
        self._recorded: Recorded | None = None

    def play(self, rounds: Rounds) -> Played:
        """Plays a block of rounds and learns from their rewards."""
        columns = [rounds.contexts, rounds.means, rounds.rewards]
        if self._keys is not None:
            columns.append(self._keys.next(len(rounds), exactly=True))
        with on(self._stream):
            played = [self._round([one[:, at] for one in columns]) for at in range(len(rounds))]
            action, best = (torch.stack(side).permute(2, 0, 1) for side in zip(*played, strict=True))
        return Played(action, best)

    def _round(self, columns: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """One round; on a GPU as a recording on tensors that keep their places, unless it draws explorations."""
        if self._stream is None or self.settings.epsilon:
            return self._step(*columns)
        if self._recorded is None:
            self._inputs = [one.clone() for one in columns]
            self._recorded = Recorded(self._remembered, self._stream)
        for place, one in zip(self._inputs, columns, strict=True):
            place.copy_(one)
        self._recorded()
        action, best = self._outputs
        return action.clone(), best.clone()

    def _remembered(self) -> None:
        self._outputs = self._step(*self._inputs)

    def _step(
        self, x: Tensor, means: Tensor, rewards: Tensor, keys: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """One round: contexts [S, A, D], rewards [S, A]; the action and the best candidate [Q, S]."""
        greedy = self._nominate(x, keys)  # [Q, S, N]
        candidates = self._explored(greedy)
        place, scores = self._rank(x, means, candidates, keys)  # [Q, S]
        action = candidates.gather(2, place[..., None]).squeeze(-1)
        best = self._of_arms(means, candidates).argmax(2, keepdim=True)
        self._learn(x[self._rows, action], self._of_arms(rewards, action), action, candidates, greedy, scores)
        return action, candidates.gather(2, best).squeeze(-1)

    def _nominate(self, contexts: Tensor, keys: Tensor | None) -> Tensor:
        inside = contexts[self._rows[:, None, None], self.arms]  # [S, N, P, D]
        scores = self.nominators.scores(inside, self.alpha).masked_fill(~self.valid, -torch.inf)
        own = None if keys is None else keys[:, 0][self._rows[:, None, None], self.arms]
        arms = self.arms.expand(scores.shape)
        return arms.gather(3, _highest(scores, arms, own)[..., None]).squeeze(-1)

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

    def _rank(
        self, x: Tensor, means: Tensor, candidates: Tensor, keys: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The place of the chosen candidate, and the ranker's scores of all arms where weights need them."""
        if self.ranker is None:
            return torch.zeros_like(candidates[..., 0]), None
        chosen = x[self._rows[None, :, None], candidates]  # [Q, S, N, D]
        scores = self.ranker.scores(chosen, self.alpha_ranker)
        if self.oracle is not None:
            scores = torch.where(self.oracle, self._of_arms(means, candidates), scores)
        own = None if keys is None else keys[:, 1][self._rows[None, :, None], candidates]
        every = None
        if self.settings.rule.needs_propensities:
            every = self.ranker.scores(x.expand(len(scores), *x.shape), self.alpha_ranker)
            every = every if self.oracle is None else torch.where(self.oracle, means, every)
        return _highest(scores, candidates, own), every

    def _learn(
        self,
        x: Tensor,
        reward: Tensor,
        action: Tensor,
        candidates: Tensor,
        greedy: Tensor,
        scores: Tensor | None,
    ) -> None:
        weights = None  # a single stage shows what it nominates: every example counts 1 under every rule
        if self.settings.rule.kind != "all" and self.ranker is not None:
            known = self._known(action, candidates, greedy, scores)
            weights = self.settings.rule.weights(known)
        if self.settings.epsilon < 1:  # nominators that always explore are never asked
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


def _keys(setup: GroupSetup, settings: BanditSettings) -> Normals | None:
    """Random keys of arms that break ties, for nominators and for the ranker [S, R, 2, A]."""
    if settings.tie != "random":
        return None
    return Normals(setup.seeds, TIES, (2, setup.n_arms), dtype=settings.dtype, device=settings.device)


def _highest(scores: Tensor, arms: Tensor, keys: Tensor | None) -> Tensor:
    """The place of the highest score; of equal ones that of the lowest arm, or of the highest key."""
    top = scores.amax(-1, keepdim=True)
    if keys is None:
        return arms.masked_fill(scores < top, torch.iinfo(arms.dtype).max).argmin(-1)
    tied = scores >= top - CLOSE * top.abs().clamp(min=1)
    return keys.to(scores).expand_as(scores).masked_fill(~tied, -torch.inf).argmax(-1)
