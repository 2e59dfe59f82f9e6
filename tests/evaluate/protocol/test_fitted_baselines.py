import dataclasses

import numpy as np
import pytest
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate import compare, evaluate
from shortlist.evaluate.protocol import fitted_baselines
from shortlist.evaluate.protocol.baselines import baselines
from shortlist.evaluate.protocol.fitted_baselines import COUNTED, collect_baselines
from shortlist.nominate import ModelNominator
from shortlist.train.models.counting.ease import EASETrainer
from shortlist.train.models.counting.item_knn import ItemKNNTrainer

COUNTS = ["popularity", "popular in window", "last click"]


@pytest.fixture(scope="module")
def split(world):
    return world.split()


def collected(split, bundles=(), **changes):
    return collect_baselines(bundles, split.test, split.train, "test", 20, **changes)


def with_stored(recommender, **slates):
    return dataclasses.replace(recommender, baselines={"test": slates})


def slates(split, seed=0, k=20):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, split.train.n_items, (len(split.test), k)))


def test_small_log_has_ease_and_item_neighbours_fitted_on_the_training_events(split):
    found = collected(split)
    assert list(found.slates) == [*COUNTS, "ease", "item-knn"]
    query = split.test.query(width=int(split.test.history_lengths().max()))
    for name, trainer in {"ease": EASETrainer(), "item-knn": ItemKNNTrainer()}.items():
        model = trainer.learn(split.train)
        expected = ModelNominator(model, exclude_seen=True, limit=20).nominate(query).items
        assert torch.equal(found.slates[name], expected)
    assert found.rule == f"{COUNTED}; ease, item-knn: fitted on the training events"


def test_counts_are_the_counted_baselines_only(split):
    found = collected(split, choice="counts")
    assert list(found.slates) == COUNTS
    assert found.rule == COUNTED
    expected = baselines(split.test, split.train, 20)
    assert all(torch.equal(found.slates[name], expected[name]) for name in COUNTS)


def test_large_log_is_fitted_only_with_all_and_the_rule_says_how(split, monkeypatch):
    monkeypatch.setattr(fitted_baselines, "FEW_ITEMS", 10)
    found = collected(split)
    assert list(found.slates) == COUNTS
    assert "ease: not fitted, the log is large" in found.rule
    assert "--baselines all fits it" in found.rule
    assert list(collected(split, choice="all").slates) == [*COUNTS, "ease", "item-knn"]
    monkeypatch.setattr(fitted_baselines, "MAX_ITEMS", 20)
    limited = collected(split, choice="all")
    assert list(limited.slates) == [*COUNTS, "item-knn"]
    assert f"ease: not fitted, the catalogue has {split.train.n_items:,} items, more than 20" in limited.rule


def test_long_histories_are_not_fitted_without_being_asked():
    users = np.repeat(np.arange(2), 20_000)
    log = Interactions.of(users, np.arange(40_000) % 50)
    assert "--baselines all" in fitted_baselines._reason("ease", log, "auto")
    assert not fitted_baselines._reason("ease", log, "all")


def test_stored_slates_are_shown_and_not_fitted_again(split, recommender):
    ease, towers = slates(split), slates(split, 1)
    bundle = with_stored(recommender, ease=ease, towers=towers, **{"last-click": slates(split, 2)})
    found = collected(split, [bundle])
    assert list(found.slates) == [*COUNTS, "ease", "towers", "item-knn"]
    assert torch.equal(found.slates["ease"], ease)
    assert "ease, towers: slates that the bundle stores since training" in found.rule
    same = with_stored(recommender, popular=found.slates["popularity"])
    assert "popular" not in collected(split, [same]).slates


def test_stored_slates_are_cut_to_the_slate_or_fitted_where_they_are_too_short(split, recommender):
    bundle = with_stored(recommender, ease=slates(split))
    short = collect_baselines([bundle], split.test, split.train, "test", 5).slates["ease"]
    assert torch.equal(short, slates(split)[:, :5])
    found = collect_baselines([bundle], split.test, split.train, "test", 30)
    assert found.slates["ease"].shape[1] == 30
    assert "ease, item-knn: fitted" in found.rule


def test_slates_of_another_number_of_requests_are_refused(split, recommender):
    bundle = with_stored(recommender, ease=slates(split)[1:])
    with pytest.raises(DataError, match="its baseline ease has slates of"):
        collected(split, [bundle])


def test_unknown_choice_is_refused_before_anything_is_loaded(tmp_path):
    for call in (evaluate, compare):
        with pytest.raises(ConfigError, match="--baselines: expected auto, all or counts, got 'some'"):
            call(tmp_path / "no bundle", tmp_path / "no data", baselines="some")


def test_pipeline_below_a_fitted_baseline_is_warned_of_by_name(world, recommender, split):
    relevant = torch.nn.functional.pad(split.test.relevant(), (0, 20), value=-1)[:, :20]
    bundle = with_stored(recommender, ease=relevant)
    found = evaluate(bundle, world)
    assert found.best_baseline == "ease"
    assert any(text.startswith("pipeline: is below ease by recall@20 (-0.") for text in found.warnings)
    compared = compare({"one": bundle, "two": recommender}, world)
    assert compared.best_baseline == "ease"
    assert any(text.startswith("two: is below ease by recall@20") for text in compared.warnings)
    assert compared.systems["one"].headline == found.headline
    assert not any("is below" in text for text in evaluate(recommender, world, baselines="counts").warnings)


def test_catalogue_smaller_than_the_slate_leaves_empty_places():
    events = Interactions.of(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 0, 2]))
    held_out = HeldOut(events, np.array([0, 2]), np.array([1, 3]), np.array([2, 4]))
    for items in collect_baselines([], held_out, events, "test", 5).slates.values():
        assert items.shape == (2, 5)
        assert sorted(items[0].tolist()) == [-1, -1, -1, 1, 2]
