"""Lists of a full-stage log at the levels of a tree, against the definition item by item."""

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Query, Vocabulary
from shortlist.errors import ConfigError
from shortlist.train.context import TrainContext
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives import ranknet
from shortlist.train.objectives.from_log import LeftOut
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.objectives.stage_log import StageLog
from shortlist.train.tree.logged_lists import LoggedLists, node_lists
from shortlist.train.tree.step import TrainStep
from shortlist.train.tree.trainer import OBJECTIVE_NAMES, TreeTrainer
from tests.train.tree.small import (
    cyclic_events,
    everything,
    plan,
    same,
    small_index,
    training,
    training_set,
)

CPU = torch.device("cpu")
EVENTS = cyclic_events()
N = EVENTS.n_items
ITEMS = Vocabulary.of([f"i{row}" for row in range(N)])
SMALL = {
    **{"width": 8, "hidden": 6, "layers": (12,), "windows": (3, 2, 1), "min_history": 2, "negatives": 4},
    **{"rounds": 1, "batch_size": 64, "learning_rate": 1e-2, "device": "cpu"},
}


def log(requests: int = 30, seed: int = 0) -> TrainingLog:
    """Requests of 3 stages in which users like items of the first half only: S = 1, 2 and 3 twice, one is liked."""
    random = np.random.default_rng(seed)
    items = np.stack([random.permutation(N)[:6] for _ in range(requests)])
    items[:, -1] = random.integers(0, N // 2, requests)
    stage = np.tile([1, 1, 2, 2, 3, 3], requests)
    y = np.tile([-1, -1, -1, -1, 0, 1], requests)
    stages = StageLog(
        random.integers(0, EVENTS.n_users, requests),
        6 * np.arange(requests + 1),
        items.ravel(),
        stage,
        y,
        N,
        3,
    )
    times = np.sort(random.integers(0, int(EVENTS.times.max()) + 2, requests))
    return TrainingLog(stages, times, ("pool", "pre", "rank"), LeftOut(requests, 6 * requests, 3))


def lists(objective: str = "softmax", batch_size: int = 8, **settings) -> LoggedLists:
    return LoggedLists.of(
        FullStageSettings(objective=objective, **settings), log(), EVENTS, 6, batch_size, 0, CPU
    )


@pytest.mark.parametrize("branch", [2, 5])
def test_node_has_the_largest_label_of_the_listed_items_below_it_once(branch):
    step = TrainStep(plan(branch=branch), small_index(N, branch=branch))
    batch = lists().batch(0)
    nodes, labels, mask = node_lists(step, batch)
    tree = step.index.tree
    for user in range(len(batch)):
        listed = [
            (int(tree.leaves(item)), float(label))
            for item, label, valid in zip(
                batch.items[user], batch.labels[user], batch.mask[user], strict=True
            )
            if valid
        ]
        for at, level in enumerate(step.levels):
            expected: dict[int, float] = {}
            for leaf, label in listed:
                node = int(tree.shape.ancestor(torch.tensor(leaf), level))
                expected[node] = max(expected.get(node, 0.0), label)
            found = mask[user, at]
            pairs = zip(nodes[user, at][found].tolist(), labels[user, at][found].tolist(), strict=True)
            assert sorted(pairs) == sorted(expected.items())


def test_loss_is_the_objective_of_every_level():
    step, given = TrainStep(plan(), small_index(N)), lists("ranknet")
    batch = given.batch(3)
    nodes, labels, mask = node_lists(step, batch)
    logits = step.logits(given.histories[batch.users], nodes)
    per_level = [
        ranknet(logits[:, at], labels[:, at], mask[:, at], batch.weight, reduction="mean").mean()
        for at in range(len(step.levels))
    ]
    assert given.loss(step, 3).item() == pytest.approx(torch.stack(per_level).sum().item(), rel=1e-5)


def test_batches_are_a_function_of_the_step():
    one, two = lists(), lists()
    late = two.batch(7)
    for _ in range(2):  # in another order
        assert torch.equal(one.batch(7).items, late.items)
        one.batch(0)
    count = -(-len(one.sampler) // 8)
    positives = torch.cat([one.batch(number).items[:, 0] for number in range(count)])
    assert sorted(positives.tolist()) == sorted(log().log.item_id[5::6].tolist())


def test_histories_are_the_events_before_each_request():
    given, requests = lists(), log()
    for number in range(len(requests)):
        own = np.flatnonzero(EVENTS.users == requests.log.user_id[number])
        before = EVENTS.items[own[EVENTS.times[own] < requests.time[number]]][-6:]
        history = given.histories[number]
        assert history[history >= 0].tolist() == before.tolist()


def test_training_step_adds_the_loss_of_the_lists():
    one, two = training(data=training_set(lists=lists("ranknet"))), training()
    for run in (one, two):
        run.run(until=1)
    extra = one.training_set.lists.loss(TrainStep(one.plan, training().state.index), 0)
    assert one.state.losses[0].item() == pytest.approx(two.state.losses[0].item() + extra.item(), rel=1e-5)
    assert not same(everything(one), everything(two))


def test_interrupted_training_with_lists_resumes_to_the_same_bytes(tmp_path):
    whole = training(data=training_set(lists=lists("ranknet")), update="none")
    whole.run()
    for until in (4, None):
        part = training(
            data=training_set(lists=lists("ranknet")), folder=tmp_path / "checkpoint", update="none"
        )
        part.run(until=until)
    assert same(everything(whole), everything(part))


@pytest.mark.parametrize("objective", [name for name in OBJECTIVE_NAMES if name != "none"])
def test_tree_with_lists_nominates_what_the_log_ranks_high(objective):
    """Users like items of the first half: lists raise their share among the nominations."""

    def share(name: str) -> float:
        given = TrainContext(EVENTS, Catalog.bare(ITEMS), clock="order", log=log(200))
        stage = TreeTrainer("dtr-u", objective=name, epochs=6, **SMALL).fit({"beam": 40}, given)
        histories = torch.from_numpy(EVENTS.items.reshape(-1, 14)[:, -6:].astype(np.int64))
        return float(((stage % 10).nominate(Query.of(histories.tolist())).items < N // 2).float().mean())

    assert share(objective) > share("none")


def test_settings_of_lists_are_checked():
    with pytest.raises(ConfigError, match="objective must be one of none, softmax, ranknet"):
        TreeTrainer("dtr-u", objective="lcron")
    with pytest.raises(ConfigError, match="stage_negatives has 9 numbers"):
        lists(stage_negatives=(1,) * 9)
    assert TreeTrainer("dtr-u", stage_negatives=[1, 2]).stage_negatives == (1, 2)
