import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.simulate.bandit import BanditSettings, System, simulate
from shortlist.simulate.labels import LabelBandit, LabelTable, PowerLawWorld


@pytest.fixture(scope="module")
def table():
    return PowerLawWorld(arms=12, width=30, positives=2.0, blocks=3).table(400)


def rows_of(table, contexts):
    """The rows of a table whose features are the contexts."""
    return (table.features.double()[None] - contexts[:, None]).abs().sum(-1).argmin(1)


def test_an_arm_that_is_a_label_has_reward_1_where_its_row_has_the_label(table):
    stream = LabelBandit(table, "arm_is_label", arms=20).rounds([3])
    found = stream.next(5)
    assert found.contexts.shape == (1, 5, 20, 30)
    for at in range(5):
        rows = rows_of(table, found.contexts[0, at])
        expected = table.labels[rows, torch.arange(20) % 12]
        assert torch.equal(found.rewards[0, at], expected.double())
    assert torch.equal(found.means, found.rewards)


def test_a_wanted_label_rewards_the_rows_that_have_it(table):
    ones = torch.ones(12, 30)
    stream = LabelBandit(table, "target", arms=20, prototypes=ones).rounds([3])
    wanted = torch.zeros(12)
    for _ in range(200):
        found = stream.next(1)
        rows = rows_of(table, found.contexts[0, 0])
        same = (table.labels[rows].double() == found.rewards[0, 0][:, None]).all(0)
        assert same.any()
        wanted += same / same.sum()
    assert wanted[:4].sum() > wanted[8:].sum()  # frequent labels are wanted more often


def test_contexts_are_features_times_the_prototype_of_the_wanted_label(table):
    plain = LabelBandit(table, "target", arms=4, prototypes=torch.ones(12, 30)).rounds([0]).next(1)
    usual = LabelBandit(table, "target", arms=4).rounds([0]).next(1)
    ratio = usual.contexts[0, 0] / plain.contexts[0, 0]
    prototype = (table.prototypes.double() - ratio.mean(0)).abs().sum(1).argmin()
    assert torch.allclose(ratio, table.prototypes[prototype].double().expand_as(ratio))


def test_disjoint_arms_share_the_context_and_are_the_labels_of_one_row(table):
    round_ = LabelBandit(table, "disjoint", arms=24).rounds([0, 1]).next(1)
    assert round_.contexts.stride(2) == 0  # not repeated in memory
    for seed in range(2):
        row = rows_of(table, round_.contexts[seed, 0, :1])
        assert torch.equal(round_.rewards[seed, 0], table.labels[row[0]].double().repeat(2))


def together(stream, rounds, most):
    """Contexts and rewards of many rounds, fetched at most so many at a time."""
    parts, found = [], 0
    while found < rounds:
        parts.append(stream.next(min(most, rounds - found)))
        found += len(parts[-1])
    return torch.cat([one.contexts for one in parts], 1), torch.cat([one.rewards for one in parts], 1)


@pytest.mark.parametrize("conversion", ["target", "arm_is_label", "disjoint"])
def test_rounds_of_a_seed_do_not_depend_on_other_seeds_or_blocks(table, conversion):
    bandit = LabelBandit(table, conversion, arms=5)
    ones, both = together(bandit.rounds([7]), 70, 3), together(bandit.rounds([1, 7]), 70, 50)
    assert torch.equal(ones[0][0], both[0][1])
    assert torch.equal(ones[1][0], both[1][1])


def test_a_label_bandit_is_a_world_of_the_simulator(table):
    systems = [System("G", 1, 30), System("G", 4, 30, "G")]
    found = simulate(
        LabelBandit(table, arms=12), systems, seeds=range(3), rounds=300, settings=BanditSettings()
    )
    share = found.realised_total[:, :, -1].mean(1) / found.uniform[:, -1].mean()
    assert (share < 0.8).all()  # it learns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"conversion": "targt"}, "did you mean"),
        ({"arms": 0}, "at least one arm"),
        ({"prototypes": torch.ones(2, 30)}, "prototypes of 12 labels"),
    ],
)
def test_a_bandit_that_cannot_be_played_is_refused(table, arguments, message):
    with pytest.raises(ConfigError, match=message):
        LabelBandit(table, **arguments)


def test_a_table_without_labels_is_refused():
    with pytest.raises(ConfigError, match="at least one true label"):
        LabelBandit(LabelTable(torch.ones(3, 2), torch.zeros(3, 2, dtype=torch.bool)))
