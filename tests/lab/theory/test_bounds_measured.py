import math

import numpy as np
import pytest
import torch

from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import DataError
from shortlist.lab.theory.bounds import retriever_bound
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import (
    held_out,
    hoeffding,
    rademacher_linear,
    train_test_gap,
    tree_losses,
)
from shortlist.models.nodes.linear import mean_vector
from shortlist.models.nodes.weight_norms import norm_report
from tests.index.tree.tabular import random_rows
from tests.lab.theory.test_bounds_inputs import theory_index


def test_hold_out_intervals_equal_the_specification():
    losses = torch.zeros(6040)
    losses[:4530] = 1
    found, high = held_out(losses)
    assert found.mean == pytest.approx(0.75)
    assert (found.high - found.low) / 2 == pytest.approx(0.011, abs=5e-4)
    assert hoeffding(6040) == pytest.approx(0.016, abs=5e-4)
    assert high == pytest.approx(0.75 + hoeffding(6040))
    assert held_out(torch.ones(10))[1] == 1


def test_a_gap_is_the_difference_of_means_over_instances():
    random = np.random.default_rng(0)
    train, test = torch.from_numpy(random.random(400)), torch.from_numpy(random.random(300) + 0.5)
    found = train_test_gap(train, torch.arange(400) // 4, test, torch.arange(300) // 3)
    assert found.mean == pytest.approx(float(test.mean() - train.mean()))
    assert found.low < found.mean < found.high
    assert found.above


def test_users_with_many_instances_widen_the_interval():
    random = np.random.default_rng(1)
    users = np.repeat(np.arange(50), 20)
    losses = torch.from_numpy(random.random(50)[users])  # all instances of a user cost the same
    together = train_test_gap(losses, torch.from_numpy(users), losses, torch.from_numpy(users))
    apart = train_test_gap(losses, torch.arange(1000), losses, torch.arange(1000))
    assert together.high - together.low > 3 * (apart.high - apart.low)


def test_too_few_users_give_no_interval():
    found = train_test_gap(torch.ones(4), torch.arange(4), torch.zeros(4), torch.arange(4))
    assert (found.mean, found.low) == (-1.0, None)


def test_the_rademacher_complexity_is_close_to_its_expectation():
    x = torch.eye(50)  # signs never cancel: the norm is always the root of 50
    found = rademacher_linear(x, 3.0)
    assert found.value == pytest.approx(3 * math.sqrt(50) / 50)
    same = torch.ones(1000, 1)  # one direction: E|S_1000|
    assert rademacher_linear(same, 1.0, draws=4000).value == pytest.approx(0.0252, abs=0.001)


def test_the_rigorous_form_is_above_the_rademacher_complexity_of_all_nodes():
    index = theory_index("linear")
    random = torch.Generator().manual_seed(0)
    histories = torch.randint(20, (200, 3), generator=random)
    x = mean_vector(*index.scorer.history_vectors(histories)).detach()
    result = BoundInputs.of_index(index, 200, norm_report(index.scorer, trained_history=False))
    found = rademacher_linear(x, result.b0)
    assert 2 * result.n_nodes * found.value <= retriever_bound(result, "rigorous_linear").value


@pytest.mark.parametrize("k", [1, 4])
def test_tree_losses_equal_a_loop(k):
    index = random_rows(5, 20, 3, seed=4)
    histories, labels = torch.arange(5)[:, None], torch.tensor([0, 7, 19, 3, -1])
    found = tree_losses(index, histories, labels, k, gamma=0.7)
    shape, values = index.tree.shape, level_scores(index, histories)
    leaves = index.tree.leaves(labels).tolist()
    for user, leaf in enumerate(leaves[:-1]):
        nats, least = [], math.inf
        for level in range(1, shape.height + 1):
            scores = values[level][user].double()
            node = shape.ancestor(leaf, level)
            nats.append(float(torch.logsumexp(scores, 0) - scores[node]))
            others = sorted((float(one) for at, one in enumerate(scores) if at != node), reverse=True)
            if len(others) >= k:
                least = min(least, float(scores[node]) - others[k - 1])
        ahead = sum(float(one) > float(values[-1][user][leaf]) for one in values[-1][user])
        assert float(found.levels[user]) == pytest.approx(sum(nats))
        assert float(found.leaves[user]) == pytest.approx(nats[-1])
        assert float(found.ramp[user]) == pytest.approx(min(1, max(0, 1 - least / 0.7)), abs=1e-6)
        assert float(found.error[user]) == float(ahead >= k)
        assert found.ramp[user] >= found.error[user]
    assert (float(found.ramp[-1]), float(found.error[-1]), float(found.leaves[-1])) == (1.0, 1.0, math.inf)


def test_losses_without_users_are_refused():
    with pytest.raises(DataError, match="a user for each"):
        train_test_gap(torch.ones(3), torch.arange(2), torch.ones(3), torch.arange(3))
    with pytest.raises(DataError, match="got none"):
        held_out(torch.zeros(0))
