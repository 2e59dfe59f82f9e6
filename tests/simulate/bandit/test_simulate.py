"""Two-stage bandits: exact end points, the split of regret, common random numbers, the plain loop (T9 to T15)."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.lab.bench.bandit.plain import plain_runs
from shortlist.nominate.pools import Pools, make_pools
from shortlist.simulate.bandit import BanditSettings, LinearWorld, System, simulate
from shortlist.simulate.bandit.grid import grid_systems
from shortlist.train.pools import WeightRule

BOTH = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "tensors"])
POLICIES = [(ranker, nominator) for ranker in "UG" for nominator in "UG"]


def played(world, systems, seeds=range(3), rounds=60, compiled=None, settings=None, **more):
    settings = settings or BanditSettings(record_every=1)
    return simulate(
        world,
        systems,
        seeds=seeds,
        rounds=rounds,
        settings=settings,
        compiled=compiled,
        keep_actions=True,
        **more,
    )


@BOTH
def test_t9_regret_is_that_of_nominators_plus_that_of_the_ranker(compiled):
    world = LinearWorld(8, 12)
    found = played(world, [System(n, 4, 3, r) for r, n in POLICIES], compiled=compiled)
    stream, total, realised = world.rounds(range(3)), 0.0, 0.0
    for number in range(60):
        block = stream.next(1)
        shown = torch.from_numpy(found.actions[:, :, number])  # [Q, S]
        means, rewards = block.means[:, 0], block.rewards[:, 0]
        best = means.argmax(1, keepdim=True)
        total = total + (means.gather(1, best) - means.gather(1, shown.T)).T
        realised = realised + (rewards.gather(1, best) - rewards.gather(1, shown.T)).T
        np.testing.assert_allclose(found.total[..., number], total, atol=1e-12)
        np.testing.assert_allclose(found.realised_total[..., number], realised, atol=1e-12)
    for part in (found.nominator, found.ranker):
        assert (np.diff(part, prepend=0.0) >= 0).all()
    assert (np.diff(found.realised_ranker) < 0).any()


@BOTH
@pytest.mark.parametrize("policy", ["U", "G"])
def test_t10_two_stages_with_all_features_are_a_single_stage(policy, compiled):
    systems = [System(policy, 4, 6, policy), System(policy, 1, 6)]
    found = played(LinearWorld(6, 20), systems, rounds=150, compiled=compiled)
    np.testing.assert_array_equal(found.actions[0], found.actions[1])


@BOTH
@pytest.mark.parametrize("subset", [1, 3, 6])
def test_t11_as_many_nominators_as_arms_are_the_ranker_alone(subset, compiled):
    systems = [System("U", 9, subset, "U"), System("U", 1, 6)]
    found = played(LinearWorld(6, 9), systems, rounds=150, compiled=compiled)
    assert (found.nominator[0] == 0).all()
    np.testing.assert_array_equal(found.actions[0], found.actions[1])


def test_t14_rounds_of_a_seed_depend_on_nothing_else():
    world = LinearWorld(5, 7)
    alone, beside = world.rounds([4]), world.rounds([1, 4, 9])
    parts = [alone.next(1), alone.next(30), alone.next(2)]
    whole = [beside.next(33)]
    while sum(map(len, whole)) < 33:
        whole.append(beside.next(33 - sum(map(len, whole))))
    for name in ("contexts", "means", "rewards"):
        one = torch.cat([getattr(part, name)[0] for part in parts])
        other = torch.cat([getattr(part, name)[1] for part in whole])
        assert torch.equal(one, other[: len(one)])


def test_t14_a_system_plays_the_same_beside_others():
    world, one = LinearWorld(6, 12), System("U", 3, 2, "G")
    alone = played(world, [one])
    beside = played(world, [System("G", 4, 3, "U"), System("G", 1, 2), one, System("U", 3, 6, "U")], range(5))
    np.testing.assert_array_equal(alone.actions[0], beside.actions[2, :3])


@BOTH
def test_t15_trajectories_are_those_of_a_plain_loop(compiled):
    world, settings = LinearWorld(6, 9), BanditSettings(record_every=7)  # pools of 3, 2, 2 and 2 arms
    systems = grid_systems(6, (4,), (1, 2, 3))
    found = played(world, systems, rounds=50, compiled=compiled, settings=settings)
    assert list(found.at) == [7, 14, 21, 28, 35, 42, 49, 50]
    for seed in range(3):
        for row, run in enumerate(plain_runs(world, systems, seed, 50, settings)):
            np.testing.assert_array_equal(found.actions[row, seed], run.actions)
            assert found.nominator[row, seed, -1] == pytest.approx(run.nominator, abs=1e-10)
            assert found.ranker[row, seed, -1] == pytest.approx(run.ranker, abs=1e-10)


@pytest.mark.parametrize("tie", ["first", "random"])
@pytest.mark.parametrize("rule", ["all", "own_pool", "own_pick", "mix:0.3"])
def test_compiled_code_plays_as_tensors_do(rule, tie):
    settings = BanditSettings(rule=WeightRule.parse(rule), tie=tie, same_masks=tie == "first")
    systems = [System(n, 5, s, r) for r in "UGO" for n in "UG" for s in (2, 7)]
    overlapping = lambda arms, nominators, seed: Pools.of(  # noqa: E731
        [[0, 1, 2], [2, 3, 4, 5], [0, 6], [7, 8, 9, 10], [9, 10, 11]], arms
    )
    one, other = (
        played(LinearWorld(7, 12), systems, compiled=compiled, settings=settings, pools=overlapping)
        for compiled in (True, False)
    )
    np.testing.assert_array_equal(one.actions, other.actions)
    np.testing.assert_allclose(one.total, other.total, atol=1e-10)


def test_any_number_of_threads_plays_the_same():
    world, systems = LinearWorld(6, 30), [System("U", 3, 2, "U"), System("G", 1, 4)]
    before = torch.get_num_threads()
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append(played(world, systems, range(4)).actions)
    torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_importance_weights_need_exploration():
    with pytest.raises(ConfigError, match="expected epsilon above 0 for the weight rule ips"):
        BanditSettings(rule=WeightRule("ips"))
    settings = BanditSettings(rule=WeightRule("ips"), epsilon=0.2, tie="random")
    found = played(LinearWorld(4, 8), [System("U", 3, 2, "U"), System("G", 3, 2, "O")], settings=settings)
    assert np.isfinite(found.total).all()


def test_more_nominators_than_arms_share_arms():
    found = played(LinearWorld(4, 3), [System("U", 5, 2, "U")])
    assert (found.nominator == 0).all()


class BrokenWorld:
    """A linear world with one reward that is not a number."""

    width, arms = 3, 4

    def rounds(self, seeds, dtype, device):
        stream = LinearWorld(3, 4).rounds(seeds, dtype, device)

        class Broken:
            def next(self, most):
                block = stream.next(most)
                block.rewards[0, -1, 2] = float("nan")
                return block

        return Broken()


def test_bad_input_is_refused():
    with pytest.raises(
        DataError, match="expected finite contexts and rewards, got others in the rounds after 0"
    ):
        played(BrokenWorld(), [System("U", 2, 2, "U")])
    world, system = LinearWorld(3, 4), System("U", 2, 2, "U")
    with pytest.raises(ConfigError, match="expected 1 to 3 features for a nominator, got 4"):
        played(world, [System("U", 2, 4, "U")])
    with pytest.raises(ConfigError, match="expected at least one system, got none"):
        played(world, [])
    with pytest.raises(ConfigError, match="expected rounds and seeds, got 0 rounds and 3 seeds"):
        played(world, [system], rounds=0)
    with pytest.raises(ConfigError, match=r"exactly one without a ranker, got 2"):
        System("U", 2, 2)
    with pytest.raises(ConfigError, match="expected nominators U or G"):
        System("X", 2, 2, "U")
    with pytest.raises(ConfigError, match="expected a simulated system"):
        played(world, [system], rounds=2).final(System("G", 2, 2, "U"))
    with pytest.raises(ConfigError, match="linear world: expected a variance of at least 0, got nan"):
        LinearWorld(2, 2, float("nan"))
    with pytest.raises(ConfigError, match="bandit: expected ties first or random, got 'last'"):
        BanditSettings(tie="last")


def test_noise_has_the_variance_of_the_world():
    block = LinearWorld(3, 200, 0.01).rounds(range(2)).next(50)
    noise = (block.rewards - block.means).numpy()
    assert noise.std() == pytest.approx(0.1, rel=0.03)


def test_paired_difference_has_twice_the_standard_error():
    found = played(LinearWorld(4, 8), [System("U", 2, 2, "U"), System("U", 1, 2)], range(6))
    gap = found.final(found.systems[0]) - found.final(found.systems[1])
    test = found.paired(*found.systems)
    assert test.mean == pytest.approx(gap.mean())
    assert test.high - test.low == pytest.approx(4 * gap.std(ddof=1) / 6**0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": 0.0}, "expected a finite penalty above 0, got 0.0"),
        ({"penalty": float("inf")}, "expected a finite penalty above 0"),
        ({"alpha_ranker": -1.0}, "expected a finite exploration of at least 0, got -1.0"),
        ({"alpha_nominator": float("nan")}, "expected a finite exploration"),
    ],
)
def test_settings_outside_their_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        BanditSettings(**settings)


@pytest.mark.parametrize(
    ("arms", "nominators", "message"),
    [
        (4, 3, "expected pools of 2 nominators and 4 arms, got 3 and 4 with seed 0"),
        (4, 1, "got 1 and 4"),
        (6, 2, "got 2 and 6"),
    ],
)
def test_pools_of_other_sizes_are_refused(arms, nominators, message):
    def other(n_arms, n_nominators, seed):
        return make_pools(arms, nominators, seed=seed)

    with pytest.raises(ConfigError, match=message):
        simulate(LinearWorld(3, 4), [System("U", 2, 2, "U")], seeds=[0], rounds=2, pools=other)


def test_compiled_code_refuses_what_it_does_not_play():
    world, system = LinearWorld(3, 4), System("U", 2, 2, "U")
    settings = BanditSettings(epsilon=0.5)
    with pytest.raises(ConfigError, match="leave compiled out"):
        simulate(world, [system], seeds=[0], rounds=2, settings=settings, compiled=True)
    with pytest.raises(ConfigError, match="expected seeds from 0, got -1"):
        simulate(world, [system], seeds=[-1], rounds=2)
    with pytest.raises(ConfigError, match="expected masks of 2 nominators and 3 features"):
        simulate(world, [system], seeds=[0], rounds=2, masks=np.ones((3, 3)))


def test_importance_weights_of_a_single_stage_are_one():
    world, single = LinearWorld(3, 6), System("U", 1, 2)
    both = [single, System("U", 2, 2, "U")]
    found = [
        simulate(
            world, systems, seeds=[0], rounds=30, settings=BanditSettings(rule=WeightRule(kind), epsilon=0.2)
        )
        for kind, systems in (("ips", both), ("all", [single]))
    ]
    assert np.allclose(found[0].final(single), found[1].final(single))
