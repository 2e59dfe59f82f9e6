from dataclasses import replace

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.evaluate.full_catalog import evaluate_full
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.trial import (
    DEPTH,
    MAX_HISTORY,
    DataSetup,
    Trial,
    _published_order,
    data_setups,
    rows_of,
    some_users,
)
from shortlist.train.models.counting.last_click import LastClickTrainer
from shortlist.train.models.sequence import SequenceTrainer

TINY = {"rounds": 1, "steps": 3, "eval_every": 3}


@pytest.fixture(scope="module")
def trial(data_setup) -> Trial:
    return Trial(data_setup, 0)


def test_quick_data_is_the_small_simulated_world(data_setup):
    assert data_setup.name == "world"
    assert data_setup.categories is not None
    assert len(data_setup.categories) == len(data_setup.dataset.items)
    assert (data_setup.negatives(70), data_setup.negatives(3)) == (8, 3)


def test_profiles_and_data_are_checked():
    with pytest.raises(ConfigError, match="me: expected the profile quick or full, got 'huge'"):
        data_setups(["ml-1m"], None, "huge", "me")
    with pytest.raises(ConfigError, match="ml-1m and mind"):
        data_setups(["ml-1m", "mind"], None, "full", "me")


def test_items_are_ordered_by_their_published_leaves(data_setup, tmp_path):
    ids = [str(one) for one in data_setup.dataset.items.ids]
    path = tmp_path / "kv.txt"
    path.write_text(f"{ids[2]}::10 {ids[0]}::30\n{ids[1]}::20\nnobody::5\n", "utf-8")
    order = _published_order(data_setup.dataset, path)
    assert order[:3].tolist() == [2, 1, 0]
    assert order[3:].tolist() == list(range(3, len(ids)))  # items without a leaf come last, by row


@pytest.mark.parametrize("bad", ["7", "7::", "7::x", "7:12"])
def test_a_line_without_a_leaf_code_is_refused_with_its_line_number(data_setup, tmp_path, bad):
    path = tmp_path / "kv.txt"
    path.write_text(f"1::2\n{bad}\n", "utf-8")
    with pytest.raises(DataError, match=r"kv\.txt:2: expected item::leaf code"):
        _published_order(data_setup.dataset, path)


def test_overrides_replace_the_sizes_of_the_data_set(trial):
    assert trial.plan("dtr-u").negatives == 8
    assert trial.plan("jtm").negatives == 6
    assert trial.plan("dtr-u", negatives=20).negatives == 20
    assert trial.plan("dtr-u", rounds=1).rounds == 1
    assert trial.plan("dtr-u").beam == trial.data_setup.sizes["beam"]


def test_training_continues_from_a_given_tree(trial):
    plan = trial.plan("dtr-u", update="none", **TINY)
    before, _ = trial.train(replace(plan, order="random"))
    after, training = trial.train(replace(plan, learning_rate=1e-9, warmup=0, weight_decay=0.0), before)
    assert torch.equal(after.tree.item_of_leaf, before.tree.item_of_leaf)
    for name, weight in before.scorer.state_dict().items():
        torch.testing.assert_close(after.scorer.state_dict()[name], weight, rtol=0, atol=1e-4)
    assert training.training_set.weights is not None


def test_a_tree_that_others_continue_from_is_trained_once(trial, monkeypatch):
    trial.trees.clear()
    first = trial.tree("jtm")
    monkeypatch.setattr(Trial, "train", lambda *_: pytest.fail("trained before"))
    assert trial.tree("jtm") is first


def test_the_published_order_is_used_unless_the_plan_is_random(data_setup):
    n = len(data_setup.dataset.items)
    other = Trial(replace(data_setup, order=torch.arange(n).flip(0)), 0)
    published, random = (
        other.train(other.plan("dtr-u", update="none", order=order, **TINY))[0].tree.item_of_leaf.tolist()
        for order in ("category", "random")
    )
    assert published == list(range(n))[::-1]
    assert random != published


def test_answers_are_made_with_and_without_items_of_the_history(trial):
    found = trial.scores("short", "dtr-u", **TINY)
    assert set(found) == {"", ", seen kept"}
    assert len(found[""]) == len(trial.split.test)
    facts = trial.facts("short")
    assert facts["seconds"] > 0
    assert facts["log"][-1]["step"] == 3
    assert facts["history"]["validation"] == [entry["f1"] for entry in facts["log"] if "f1" in entry]


def test_answers_are_cached_by_data_set_name_and_seed(data_setup, request):
    cache = AnswerCache()
    first = Trial(data_setup, 1, cache).scores("short", "dtr-u", **TINY)
    assert set(cache.tensors) == {"world/short/1"}
    assert cache.tensors["world/short/1"].shape == (2, len(Trial(data_setup, 1).split.test), DEPTH)
    request.getfixturevalue("no_training")
    again = Trial(data_setup, 1, cache).scores("short", "dtr-u", **TINY)
    assert torch.equal(first[""]["f1@20"], again[""]["f1@20"])


@pytest.mark.parametrize("name", ["popularity", "item-knn", "ease", "sasrec"])
def test_full_catalog_systems_agree_with_evaluate_full(trial, name):
    n_items, found = len(trial.data_setup.dataset.items), trial.full_catalog(name)
    for kind, repeats in (("", False), (", seen kept", True)):
        oracle = evaluate_full(
            trial._score_block(name), trial.split.test, n_items, (20, 40), width=MAX_HISTORY, repeats=repeats
        )
        for metric in ("recall@20", "f1@40"):
            assert torch.allclose(found[kind][metric], oracle[metric], equal_nan=True)


@pytest.mark.parametrize("shape", [(77, 100), (2, 5, DEPTH)])
def test_cached_answers_of_other_users_are_refused(data_setup, shape):
    cache = AnswerCache()
    cache.get("world/last-click/0", lambda: (torch.zeros(shape, dtype=torch.int32), {}))
    cache.get("world/popularity/0", lambda: (torch.zeros(shape, dtype=torch.int32), {}))
    message = "was cached by an experiment on other users; use another file"
    with pytest.raises(ArtifactError, match=f"'world/last-click/0' {message}"):
        Trial(data_setup, 0, cache).model("last-click", LastClickTrainer())
    with pytest.raises(ArtifactError, match=f"'world/popularity/0' {message}"):
        Trial(data_setup, 0, cache).full_catalog("popularity")


def test_rows_have_one_value_per_seed(trial):
    runs = {"popularity": [trial.full_catalog("popularity"), trial.full_catalog("popularity")]}
    rows = rows_of(runs, "world", ["f1@20"])
    assert [one.metric for one in rows] == ["f1@20", "f1@20, seen kept"]
    assert all(len(one.values) == 2 and one.sd == 0 for one in rows)
    assert rows[0].method == "popularity on world"


def test_some_users_are_at_most_the_given_number(trial):
    held_out = trial.split.test
    assert len(some_users(held_out, 5, 0)) == 5
    assert len(some_users(held_out, 10**6, 0)) == len(held_out)


@pytest.mark.data
def test_real_data_sets_load(real_data):
    movies, news = data_setups(["ml-1m", "mind"], real_data, "full", "test")
    assert (len(movies.dataset.items), len(news.dataset.items)) == (3706, 6988)
    assert movies.categories is not None
    assert movies.order is None
    assert news.order is not None
    assert sorted(news.order.tolist()) == list(range(6988))
    _check_split(movies)
    _check_split(news)


def _check_split(data_setup: DataSetup) -> None:
    split = Trial(data_setup, 0).split
    assert len(split.test) > 500
    assert int(Trial(data_setup, 0).relevant.max()) < len(data_setup.dataset.items)


def test_a_cached_estimator_has_the_same_weights(data_setup, monkeypatch, tmp_path):
    cache = AnswerCache.open(tmp_path / "cache.safetensors")
    first = Trial(data_setup, 0, cache).sasrec
    monkeypatch.setattr(SequenceTrainer, "learn", lambda *_: pytest.fail("it is cached"))
    again = Trial(data_setup, 0, AnswerCache.open(tmp_path / "cache.safetensors")).sasrec
    assert not again.training
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    later = Trial(data_setup, 0, cache)
    later.full_catalog("sasrec")  # its seconds are those of its training, not of loading the weights
    assert later.facts("sasrec")["seconds"] == cache.facts["world/sasrec of width 16/0"]["seconds"]
