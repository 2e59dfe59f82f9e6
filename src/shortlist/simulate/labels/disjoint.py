"""Two-stage bandits whose arms share the context and have coefficients of their own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit.draws import MASKS, SINGLE, TIES, Normals, nested_masks
from shortlist.simulate.bandit.regret import Regret
from shortlist.simulate.bandit.setup import made_pools
from shortlist.simulate.bandit.simulate import random_pools
from shortlist.simulate.bandit.systems import ORACLE, BanditSettings, MakePools, System, check_systems
from shortlist.simulate.labels.arm_ridge import ArmRidge
from shortlist.simulate.labels.label_bandit import DISJOINT, LabelBandit

CLOSE = 1e-12  # scores this close to the highest are ties
OWN_OR_ALL = ("all", "own_pool", "own_pick")


def simulate_disjoint(
    bandit: LabelBandit,
    systems: Sequence[System],
    *,
    seeds: Sequence[int],
    rounds: int,
    settings: BanditSettings | None = None,
    pools: MakePools = random_pools,
    keep_actions: bool = False,
    progress: Progress = silent,
) -> Regret:
    """The regret of every system on every seed, each policy with coefficients for each arm.

    It is what `simulate` would return with block features e_a ⊗ x, which are never made. An example of one arm says
    nothing about others, so without overlap of pools it is the same to train on all and on own examples.
    """
    settings = settings or BanditSettings()
    check_systems(systems, bandit.width)
    _check(bandit, settings, seeds, rounds)
    groups = [DisjointGroup(bandit, one, seeds, rounds, settings, pools) for one in systems]
    keys = _keys(bandit, settings, seeds)
    # nominator and ranker of each system, then the uniform agent
    lost = torch.zeros((2 * len(systems) + 1, len(seeds)), dtype=torch.float64, device=settings.device)
    recorded: list[tuple[int, Tensor]] = []
    actions: list[Tensor] = []
    with torch.inference_mode():
        for number, x, rewards in _one_by_one(bandit, seeds, rounds, settings):
            own = None if keys is None else keys.next(1, exactly=True)[:, 0]  # [S, 2, A]
            played = [group.step(x, rewards, own) for group in groups]
            lost += torch.stack([part for one in played for part in one.lost] + [_uniform(rewards)])
            if keep_actions:
                actions.append(torch.stack([one.action for one in played]))
            if number % settings.record_every == 0 or number == rounds:
                recorded.append((number, lost.clone()))
                progress("bandit rounds", number, rounds)
    return _regret(systems, seeds, recorded, actions)


def _one_by_one(
    bandit: LabelBandit, seeds: Sequence[int], rounds: int, settings: BanditSettings
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The number of each round from 1, its contexts [S, D] and rewards [S, A]."""
    stream, number = bandit.rounds(seeds, settings.dtype, settings.device), 0
    while number < rounds:
        block = stream.next(rounds - number)
        for at in range(len(block)):
            number += 1
            yield number, block.contexts[:, at, 0], block.rewards[:, at]


def _keys(bandit: LabelBandit, settings: BanditSettings, seeds: Sequence[int]) -> Normals | None:
    """Random numbers of arms that break ties, one for nominators and one for the ranker."""
    if settings.tie != "random":
        return None
    return Normals(seeds, TIES, (2, bandit.arms), dtype=torch.float64, device=settings.device)


def _uniform(rewards: Tensor) -> Tensor:
    """What an agent that plays every arm equally often loses."""
    exact = rewards.double()
    return exact.amax(1) - exact.mean(1)


def _regret(
    systems: Sequence[System],
    seeds: Sequence[int],
    recorded: Sequence[tuple[int, Tensor]],
    actions: Sequence[Tensor],
) -> Regret:
    """The result; expected rewards are the rewards themselves."""
    curves = torch.stack([one for _, one in recorded], -1).cpu().numpy()  # [2 Q + 1, S, recorded]
    nominator, ranker = curves[:-1:2], curves[1::2]
    return Regret(
        tuple(systems),
        tuple(seeds),
        np.array([number for number, _ in recorded]),
        nominator=nominator,
        ranker=ranker,
        realised_nominator=nominator,
        realised_ranker=ranker,
        uniform=curves[-1],
        actions=torch.stack(list(actions), -1).cpu().numpy() if actions else None,
    )


def _check(bandit: LabelBandit, settings: BanditSettings, seeds: Sequence[int], rounds: int) -> None:
    if bandit.conversion != DISJOINT:
        raise ConfigError(
            f"disjoint bandit: expected a label bandit with the conversion {DISJOINT}, got {bandit.conversion!r}; "
            "play the others with `simulate`"
        )
    if rounds < 1 or not seeds:
        raise ConfigError(f"bandit: expected rounds and seeds, got {rounds} rounds and {len(seeds)} seeds")
    if settings.rule.kind not in OWN_OR_ALL or settings.epsilon:
        raise ConfigError(
            f"disjoint bandit: expected a weight rule {', '.join(OWN_OR_ALL)} and epsilon 0, got "
            f"{settings.rule.kind} and {settings.epsilon}; with coefficients for each arm these rules are the same"
        )


@dataclass(frozen=True, eq=False)
class DisjointPlayed:
    """What a system did in a round [S], and what its nominators and its ranker lost."""

    action: Tensor
    lost: tuple[Tensor, Tensor]


class DisjointGroup:
    """The state of one system on S seeds."""

    def __init__(
        self,
        bandit: LabelBandit,
        system: System,
        seeds: Sequence[int],
        rounds: int,
        settings: BanditSettings,
        make: MakePools,
    ) -> None:
        self.system = system
        self.alpha, self.alpha_ranker = settings.alphas_of(system)
        pools = made_pools(make, bandit.arms, system.n_nominators, seeds)
        self.arms, self.valid, owner = _layout(pools, settings.device)
        purpose = SINGLE if system.ranker is None else MASKS
        order = torch.from_numpy(nested_masks(seeds, system.n_nominators, bandit.width, purpose))
        order = order[:, :1].expand_as(order) if settings.same_masks else order
        mask = (order < system.subset).to(settings.device, settings.dtype)  # [S, N, D]
        self.nominators = ArmRidge(mask, owner, rounds, settings.penalty)
        everything, nobody = torch.ones_like(mask[:, :1]), torch.zeros_like(owner)
        learns = system.ranker not in (None, ORACLE)
        self.ranker = ArmRidge(everything, nobody, rounds, settings.penalty) if learns else None
        self._rows = torch.arange(len(seeds), device=settings.device)

    def step(self, x: Tensor, rewards: Tensor, keys: Tensor | None) -> DisjointPlayed:
        """Plays one round and learns from its reward: x [S, D], rewards [S, A], keys [S, 2, A]."""
        candidates = self._nominate(x, None if keys is None else keys[:, 0])  # [S, N]
        action = self._rank(x, rewards, candidates, None if keys is None else keys[:, 1])  # [S]
        reward = rewards[self._rows, action]
        self.nominators.update(x, action, reward)
        if self.ranker is not None:
            self.ranker.update(x, action, reward)
        best = rewards.gather(1, candidates).amax(1)
        return DisjointPlayed(action, ((rewards.amax(1) - best).double(), (best - reward).double()))

    def _nominate(self, x: Tensor, keys: Tensor | None) -> Tensor:
        scores = self.nominators.scores(x, self.alpha)  # [S, A]
        inside = self._in_pools(scores).masked_fill(~self.valid, -torch.inf)  # [S, N, P]
        place = highest(inside, self.arms, None if keys is None else self._in_pools(keys))
        return self.arms.gather(2, place[..., None]).squeeze(-1)

    def _in_pools(self, values: Tensor) -> Tensor:
        return values.gather(1, self.arms.flatten(1)).reshape(self.arms.shape)

    def _rank(self, x: Tensor, rewards: Tensor, candidates: Tensor, keys: Tensor | None) -> Tensor:
        if self.system.ranker is None:
            return candidates[:, 0]
        scores = rewards if self.ranker is None else self.ranker.scores(x, self.alpha_ranker)
        own = None if keys is None else keys.gather(1, candidates)
        place = highest(scores.gather(1, candidates), candidates, own)
        return candidates.gather(1, place[:, None]).squeeze(1)


def highest(scores: Tensor, arms: Tensor, keys: Tensor | None) -> Tensor:
    """The place of the highest score; of ties that of the lowest arm, or of the highest key."""
    top = scores.amax(-1, keepdim=True)
    if keys is None:
        return arms.masked_fill(scores < top, torch.iinfo(arms.dtype).max).argmin(-1)
    tied = scores >= top - CLOSE * top.abs().clamp(min=1)
    return keys.masked_fill(~tied, -torch.inf).argmax(-1)


def _layout(pools: Sequence[Pools], device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Arms of each pool and which are real [S, N, P], and the nominator of each arm [S, A]."""
    for one in pools:
        if not one.partition:
            raise ConfigError(
                f"disjoint bandit: expected pools without overlap, got {one.overlap} arms in more than one; "
                "use at most as many nominators as arms"
            )
    parts = [one.padded() for one in pools]
    largest = max(valid.shape[1] for _, valid in parts)
    arms, valid = (
        np.stack([np.pad(part, [(0, 0), (0, largest - part.shape[1])]) for part in side])
        for side in zip(*parts, strict=True)
    )
    owner = np.stack([one.matrix.argmax(0) for one in pools])
    first, second, third = (torch.from_numpy(one).to(device) for one in (arms, valid, owner))
    return first, second, third
