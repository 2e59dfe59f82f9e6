import gc
import weakref
from collections import Counter

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ArtifactError, ConfigError, ShortlistError
from shortlist.index.tree import by_category, by_vectors, random_order, search
from shortlist.metrics.ranking import f1
from shortlist.train.tree import training as loop
from shortlist.train.tree.checkpoint import EvaluationEntry, UpdateEntry
from shortlist.train.tree.plan import METHODS
from shortlist.train.tree.rectify import Top
from shortlist.train.tree.training import TreeTraining, scorer_config
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.validation import Quality, answers, quality, validation_sample
from tests.train.tree.small import everything, next_item_scores, plan, same, training, training_set

LONG = {"steps": 40, "rounds": 2, "batch_size": 64, "eval_every": 1000, "beam": 10, "negatives": 8}
SLOW = {"otm": {"steps": 100}, "tdm": {"steps": 100}}  # binary losses need more steps


@pytest.mark.parametrize("method", METHODS)
def test_every_method_beats_popularity_on_cyclic_histories(method):
    data = training_set()
    one = training(method, data=data, **{**LONG, **SLOW.get(method, {})})
    untaught = {name: value.clone() for name, value in one.chosen().tensors().items()}
    before = quality(one.chosen(), data.valid, one.plan, k=5).f1
    found = one.run()
    after = quality(found, data.valid, one.plan, k=5).f1
    popular = torch.from_numpy(np.argsort(-data.events.popularity, kind="stable")[:5].copy())
    usual = float(f1(popular.expand(len(data.valid), 5), data.valid.relevant(), 5).mean())
    assert after > max(before, usual), (before, usual, after)
    assert not same(found.tensors(), untaught)
    assert not found.scorer.training


@pytest.mark.parametrize("profile", ["paper", "released"])
def test_the_profiles_of_paper_and_code_improve_f1(profile):
    one = training("dtr-t-rl", profile, **{**LONG, "learning_rate": 2e-2, "warmup": 5})
    before = quality(one.chosen(), one.training_set.valid, one.plan, k=5).f1
    assert quality(one.run(), one.training_set.valid, one.plan, k=5).f1 > before


@pytest.mark.parametrize("method", METHODS)
def test_t27_the_same_seed_gives_the_same_bytes_and_another_seed_others(method):
    runs = [training(method, seed=seed, dropout=0.2) for seed in (0, 0, 1)]
    for one in runs:
        one.run()
    assert same(everything(runs[0]), everything(runs[1]))
    assert runs[0].state.log == runs[1].state.log
    assert not same(everything(runs[0]), everything(runs[2]))


def test_training_does_not_change_the_global_generator():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    training(dropout=0.5).run()
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_does_not_depend_on_the_global_generator():
    made = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        one = training(dropout=0.5)
        one.run()
        made.append(everything(one))
    assert same(*made)


@pytest.mark.parametrize("given", [{}, {"ahead": 2}])
def test_rectified_labels_from_top_items(given, tmp_path):
    """All items as top items equal all scores; fewer differ, and a checkpoint distinguishes them."""

    def best(count):
        return training_set(estimator=lambda rows: Top(*reversed(next_item_scores(rows).topk(count))))

    runs = [training("dtr-t-rl", data=data, **given) for data in (training_set(), best(40), best(3))]
    for one in runs:
        one.run()
    assert same(everything(runs[0]), everything(runs[1]))
    assert not same(everything(runs[0]), everything(runs[2]))
    training("dtr-t-rl", data=best(40), folder=tmp_path / "kept", **given).run()
    with pytest.raises(ArtifactError, match=r"data\.estimator"):
        training("dtr-t-rl", data=best(3), folder=tmp_path / "kept", **given)


def test_the_best_validation_f1_is_chosen_not_the_last(monkeypatch):
    marks = iter([0.1, 0.5, 0.3, 0.2])
    monkeypatch.setattr(loop, "quality", lambda index, held_out, plan: Quality(0.0, next(marks), 0))
    one = training(eval_every=2, steps=4)
    one.run(until=4)
    best = {name: value.clone() for name, value in one.state.index.tensors().items()}
    chosen = one.run()
    assert one.validation == [0.1, 0.5, 0.3, 0.2]
    assert same(chosen.tensors(), best)
    assert not same(one.state.index.tensors(), best)
    assert one.state.updates == 1


def test_of_equal_f1_the_first_is_chosen(monkeypatch):
    monkeypatch.setattr(loop, "quality", lambda index, held_out, plan: Quality(0.0, 0.5, 0))
    one = training(eval_every=2)
    one.run(until=2)
    best = {name: value.clone() for name, value in one.state.index.tensors().items()}
    assert same(one.run().tensors(), best)


def test_early_stopping_after_patience_evaluations(monkeypatch):
    marks = iter([0.1, 0.5, 0.3, 0.4, 0.9])
    monkeypatch.setattr(loop, "quality", lambda index, held_out, plan: Quality(0.0, next(marks), 0))
    one = training(eval_every=2, steps=5, patience=2)
    one.run()
    assert one.state.step == 8
    one.run()  # stays stopped
    assert one.state.step == 8


def test_without_validation_the_last_is_chosen():
    one = training(data=training_set(valid=None))
    assert one.run() is one.state.index
    assert [type(entry) for entry in one.state.log] == [EvaluationEntry, UpdateEntry, EvaluationEntry]
    assert all(entry.f1 is None for entry in one.state.log if isinstance(entry, EvaluationEntry))
    assert all(entry.seconds is None for entry in one.state.log)


def test_logged_f1_is_that_of_the_validation_users():
    one = training("dtr-t")
    one.run(until=5)
    entry, held_out = one.state.log[0], one.training_set.valid
    one.state.index.scorer.eval()
    expected = float(
        f1(answers(one.state.index, held_out, 20, one.plan.beam), held_out.relevant(), 20).mean()
    )
    assert entry.f1 == pytest.approx(expected)
    assert entry.step == 5


def test_log_entries_have_the_time_of_the_clock():
    ticks = iter(range(100))
    one = TreeTraining(plan(), training_set(), 0, "cpu", clock=lambda: float(next(ticks)))
    one.run()
    assert [entry.seconds for entry in one.state.log] == [0.0, 1.0, 2.0]


def test_progress_is_reported_after_every_step():
    steps = []
    TreeTraining(plan(), training_set(), 0, "cpu", lambda *entry: steps.append(entry)).run()
    assert steps == [("tree", step, 10) for step in range(1, 11)]


def test_updates_are_between_rounds():
    one = training(rounds=4, steps=3)
    one.run()
    assert [entry.step for entry in one.state.log if isinstance(entry, UpdateEntry)] == [3, 6, 9]
    assert one.state.updates == one.state.index.tree.version == 3
    still = training("otm", rounds=4, steps=3)
    still.run()
    assert still.state.updates == still.state.index.tree.version == 0


def test_restart_resets_the_optimizer_and_keeps_the_weights():
    one = training(restart=True, update="none")
    one.run(until=5)
    optimizer = one.state.optimizer
    one.run(until=6)
    assert one.state.optimizer is not optimizer
    assert {float(value) for name, value in one.state.optimizer.tensors().items() if "step" in name} == {1.0}


def test_an_epoch_visits_every_instance_at_most_once_in_random_order():
    one = training(batch_size=50)
    count, shown = len(one.instances), []
    for step in range(2 * (count // 50)):
        one.state.step = step
        shown += [one._rows()]
    for epoch in (shown[: count // 50], shown[count // 50 :]):
        times = Counter(torch.cat(epoch).tolist())
        assert set(times.values()) == {1}
        assert len(times) == count // 50 * 50
    assert not torch.equal(shown[0], shown[count // 50])


def test_a_batch_size_above_the_instances_takes_all_of_them():
    one = training(batch_size=100_000)
    one.run(until=2)
    assert sorted(one._rows().tolist()) == list(range(len(one.instances)))


def test_labels_are_rectified_once_for_each_tree():
    asked = []

    def estimator(histories):
        asked.append(len(histories))
        return next_item_scores(histories)

    one = training("dtr-t-rl", data=training_set(estimator=estimator), rounds=3, steps=4)
    one.run()
    assert asked == [len(one.instances)] * 3
    assert one._labels.fits(one.state.index.tree)


def test_rectified_labels_need_an_estimator():
    with pytest.raises(ShortlistError, match="need an estimator of probabilities, got none"):
        training("dtr-t-rl", data=training_set(estimator=None)).run()


def test_the_order_by_vectors_needs_vectors():
    with pytest.raises(ShortlistError, match="needs item vectors, got none"):
        training(order="vectors")


def test_the_first_tree_has_the_order_of_the_plan():
    data, vectors = training_set(), torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    orders = {
        "random": random_order(40, 0),
        "category": by_category(data.categories, 0, shuffle=True),
        "category-sorted": by_category(data.categories, 0, shuffle=False),
        "vectors": by_vectors(vectors, 2, 0),
    }
    for name, order in orders.items():
        one = training(order=name, data=training_set(vectors=vectors))
        assert one.state.index.tree.item_of_leaf.tolist() == order.tolist()
    bare = training(data=training_set(categories=None))
    assert bare.state.index.tree.item_of_leaf.tolist() == orders["random"].tolist()
    given = training(data=training_set(order=torch.arange(39, -1, -1)))
    assert given.state.index.tree.item_of_leaf.tolist() == list(range(39, -1, -1))


def few(n_items, users=3, length=6):
    items = np.arange(users * length) % n_items
    return Interactions.of(np.repeat(np.arange(users), length), items, n_items=n_items)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "events",
    [
        few(1),
        few(2),
        few(3),
        few(5, users=4, length=2),
        Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=5),
    ],
    ids=["one item", "two items", "fewer items than branches", "histories too short", "no events"],
)
def test_tiny_logs_train_and_return_all_items(method, events):
    n = events.n_items
    data = TreeTrainingSet(events, estimator=lambda rows: torch.zeros(len(rows), n))
    found = training(method, data=data, branch=METHODS[method].get("branch", 4), min_history=2).run()
    items = search(
        found, torch.tensor([[0, -1, 0], [-1, -1, -1]]), n, path=METHODS[method].get("product", False)
    ).items
    assert items.sort(1).values.tolist() == [list(range(n))] * 2


def test_without_instances_no_step_is_made():
    one = training(data=TreeTrainingSet(few(5, users=4, length=2)))
    one.run()
    assert one.state.step == 0
    assert one.state.log == []


def test_targets_without_a_leaf_are_ignored():
    data = training_set(order=torch.arange(30))  # items 30 to 39 have no leaf
    for method in ("dtr-t", "dtr-t-rl", "jtm", "otm"):
        found = training(method, data=data).run()
        assert found.tree.n_live == 30


def test_spare_slots_stay_free():
    one = training(spare_leaves=0.3)
    found = one.run()
    assert int((found.tree.item_of_leaf < 0).sum()) == 12
    assert found.tree.n_live == 40


def test_a_loss_that_is_not_finite_ends_training():
    one = training(data=training_set(valid=None))
    with torch.no_grad():
        one.state.index.scorer.nodes.weight.fill_(torch.nan)
    with pytest.raises(ShortlistError, match="lower the learning rate"):
        one.run()


def test_bfloat16_needs_a_gpu():
    asked = [training(precision=name)._precision()._enabled for name in ("auto", "float32")]
    assert asked == [False, False]
    with pytest.raises(ConfigError, match="needs a GPU"):
        training(precision="bfloat16")


def test_no_cuda_graph_on_a_cpu():
    assert training()._stream is None


@pytest.mark.parametrize(
    ("given", "recordable"),
    [
        ({}, True),
        ({"cuda_graph": False}, False),
        ({"dropout": 0.1}, False),
        ({"method": "dtr-t-rl"}, True),
        ({"method": "dtr-t-rl", "ahead": 2}, False),
    ],
)
def test_steps_with_foreign_randomness_or_code_are_not_recorded(given, recordable):
    one = training(**given)
    one.device = torch.device("cuda")
    assert one._recordable() == recordable
    one.state.index.scorer.lazy = True
    assert not one._recordable()


def test_a_finished_training_is_freed_without_the_garbage_collector():
    """A recorded graph holds much GPU memory: no reference cycle may keep it alive."""
    gc.disable()
    try:
        one = training()
        one.run()
        held = weakref.ref(one)
        del one
        assert held() is None
    finally:
        gc.enable()


def test_the_item_table_has_a_row_per_item():
    one = training("dtr-t", "paper")
    config = scorer_config(one.plan, one.state.index.tree.shape, 40)
    assert config.n_items == 40
    assert config == one.state.index.scorer.config
    assert scorer_config(plan(), one.state.index.tree.shape, 40).n_items == 0


def test_validation_uses_at_most_a_thousand_users():
    cases = training_set().valid
    many = cases.take(np.arange(3000) % len(cases))
    assert len(validation_sample(many, 0)) == 1000
    assert validation_sample(None, 0) is None
    assert validation_sample(cases.take(np.arange(0)), 0) is None


def test_targets_ahead_are_rectified_with_the_scores_of_their_history():
    """With an estimator that scores every target lowest, only leaves are positive."""
    data = training_set(estimator=lambda rows: torch.zeros(len(rows), training_set().events.n_items))
    one = TreeTraining(plan("dtr-t-rl", ahead=3, history_dropout=0.2), data, 0, "cpu")
    rows = torch.arange(8)
    histories, labels = one.instances.histories(rows), one.instances.targets(rows)
    assert (
        one._weights(rows, histories, labels).tolist() == [[1.0] * len(one._step.levels)] * 8
    )  # all are equal
    one.training_set = training_set(
        estimator=lambda rows: -torch.nn.functional.one_hot(labels, training_set().events.n_items).float()
    )
    assert one._weights(rows, histories, labels)[:, -1].tolist() == [1.0] * 8
    assert (one._weights(rows, histories, labels)[:, 0] == 0).any()
    one.training_set = data
    one.run(until=3)
    assert one.state.step == 3
