from dataclasses import dataclass

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools
from shortlist.simulate.bandit import BanditSettings, Rounds, System, simulate
from shortlist.simulate.bandit.draws import MASKS, nested_masks
from shortlist.simulate.labels import LabelBandit, PowerLawWorld, simulate_disjoint
from shortlist.train.pools import WeightRule

ARMS, WIDTH = 6, 5


@pytest.fixture(scope="module")
def bandit():
    table = PowerLawWorld(arms=ARMS, width=WIDTH, positives=1.5, blocks=2, block_width=2).table(300)
    return LabelBandit(table, "disjoint", arms=ARMS)


@dataclass(frozen=True)
class BlockWorld:
    """The same bandit with the block features of every arm written out."""

    bandit: LabelBandit

    @property
    def width(self) -> int:
        return ARMS * WIDTH

    @property
    def arms(self) -> int:
        return ARMS

    def rounds(self, seeds, dtype, device):
        return BlockRounds(self.bandit.rounds(seeds, dtype, device))


class BlockRounds:
    def __init__(self, stream) -> None:
        self.stream = stream

    def next(self, most: int) -> Rounds:
        shared = self.stream.next(most)
        eye = torch.eye(ARMS, dtype=shared.contexts.dtype)
        blocks = torch.einsum("ab,srad->srabd", eye, shared.contexts).flatten(3)
        return Rounds(blocks, shared.means, shared.rewards)


@pytest.mark.parametrize("ranker", ["U", "G", "O"])
@pytest.mark.parametrize("nominator", ["U", "G"])
def test_actions_are_those_of_the_simulator_with_block_features(bandit, ranker, nominator):
    system, settings = System(nominator, 3, 2, ranker), BanditSettings(tie="random", penalty=0.8)
    found = simulate_disjoint(bandit, [system], seeds=[4], rounds=80, settings=settings, keep_actions=True)
    shown = nested_masks([4], 3, WIDTH, MASKS)[0] < 2  # [N, D]
    masks = np.tile(shown, ARMS).astype(np.float64)
    expected = simulate(
        BlockWorld(bandit), [system], seeds=[4], rounds=80, settings=settings, masks=masks, keep_actions=True
    )
    assert np.array_equal(found.actions, expected.actions)
    assert np.allclose(found.realised_total, expected.realised_total)
    assert np.allclose(found.nominator, expected.nominator)
    assert np.allclose(found.uniform, expected.uniform)


def test_exploration_of_a_system_replaces_that_of_the_settings(bandit):
    own, usual = System("U", 3, 2, "U", 0.1, 0.7), System("U", 3, 2, "U")
    settings = BanditSettings(alpha_nominator=0.1, alpha_ranker=0.7)
    played = [
        simulate_disjoint(bandit, [one], seeds=[0], rounds=60, settings=given, keep_actions=True).actions
        for one, given in ((own, BanditSettings()), (usual, settings), (usual, BanditSettings()))
    ]
    assert np.array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])


def test_as_many_nominators_as_arms_nominate_everything(bandit):
    systems = [System("G", ARMS, 1, "G"), System("G", 1, WIDTH)]
    found = simulate_disjoint(bandit, systems, seeds=[0, 1], rounds=60, keep_actions=True)
    assert not found.nominator[0].any()
    assert np.array_equal(found.actions[0], found.actions[1])


def test_a_policy_learns(bandit):
    systems = [System("G", 1, WIDTH), System("U", 2, WIDTH, "U")]
    settings = BanditSettings(alpha_ranker=0.1, alpha_nominator=0.1)
    found = simulate_disjoint(bandit, systems, seeds=range(4), rounds=400, settings=settings)
    share = found.realised_total[:, :, -1].mean(1) / found.uniform[:, -1].mean()
    assert (share < 0.9).all()


def overlapping(arms: int, nominators: int, seed: int) -> Pools:
    return Pools(np.ones((nominators, arms), dtype=np.bool_))


def test_what_has_no_meaning_for_disjoint_arms_is_refused(bandit):
    system = System("G", 2, 2, "G")
    with pytest.raises(ConfigError, match="expected pools without overlap"):
        simulate_disjoint(bandit, [system], seeds=[0], rounds=2, pools=overlapping)
    with pytest.raises(ConfigError, match="expected a weight rule"):
        simulate_disjoint(
            bandit, [system], seeds=[0], rounds=2, settings=BanditSettings(rule=WeightRule("mix", 0.5))
        )
    with pytest.raises(ConfigError, match="expected rounds and seeds"):
        simulate_disjoint(bandit, [system], seeds=[], rounds=2)
    with pytest.raises(ConfigError, match="play the others with `simulate`"):
        simulate_disjoint(LabelBandit(bandit.table, "target"), [system], seeds=[0], rounds=2)
