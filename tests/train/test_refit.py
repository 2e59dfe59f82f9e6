"""Training ends with a refit on all events; the measured pipeline stays beside the served one."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import shortlist
from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.data.split import PROTOCOLS
from shortlist.evaluate import evaluate
from shortlist.grammar import leaves
from shortlist.pipeline import Recommender, load_recommender, parse_recipe
from shortlist.pipeline.offline import time_limited
from shortlist.pipeline.recommender import Request
from shortlist.train.bundle import describe_training
from shortlist.train.loop.trainer import CONTINUED
from shortlist.train.tree.training import TreeTraining
from tests.train.epochs import CountedEpochs

RECIPE = parse_recipe("""
name = "small"
pipeline = "popular % 20 + covisit % 20 + nearest % 20 + sequence % 20 >> seen >> rank % 10"

[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.nearest]
type = "item-knn"
[stages.sequence]
type = "gru4rec"
[stages.sequence.train]
width = 8
epochs = 3
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 2
""")


def sparse_log(n_users=300, n_items=80, seed=0) -> Dataset:
    """A log of short histories, median 4 events: users prefer one of four groups of items."""
    rng = np.random.default_rng(seed)
    lengths = np.where(
        rng.random(n_users) < 0.15, rng.integers(16, 30, n_users), rng.geometric(0.25, n_users)
    )
    users = np.repeat(np.arange(n_users), lengths)
    group = rng.integers(0, 4, n_users)[users] * (n_items // 4)
    items = np.where(rng.random(len(users)) < 0.8, group + rng.integers(0, n_items // 4, len(users)), 0)
    items = np.where(items == 0, rng.integers(0, n_items, len(users)), items)
    _, first = np.unique(np.stack([users, items]), axis=1, return_index=True)
    users, items = users[np.sort(first)], items[np.sort(first)]
    times = rng.permutation(len(users)) * 1000
    names = pa_ids("u", n_users), pa_ids("i", n_items)
    events = Interactions.of(users, items, times, n_users=n_users, n_items=n_items)
    return Dataset("sparse", names[0], events, Catalog(names[1], pa.table({})))


def pa_ids(letter: str, count: int) -> Vocabulary:
    return Vocabulary.of([f"{letter}{number}" for number in range(count)])


@pytest.fixture(scope="module")
def data() -> Dataset:
    return sparse_log()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="module", params=list(PROTOCOLS))
def trained(request, data, folder) -> Recommender:
    return shortlist.train(RECIPE, data, folder / request.param, protocol=request.param, seed=3)


def slates(bundle: Recommender, data: Dataset) -> list[list[int]]:
    return [bundle.recommend(Request(user)).items[0].tolist() for user in data.users.ids.to_pylist()]


def test_served_bundle_remembers_and_refits_every_event(data, trained):
    assert np.median(data.events.lengths) == 4
    assert trained.about.refit.events == len(data.events)
    assert trained.about.refit.users == len(data.users)
    assert len(trained.histories.items) == len(data.events)
    assert trained.about.ends == int(data.events.times.max())
    assert trained.about.events == len(data.split(protocol=trained.about.split["protocol"]).train)


def test_no_item_of_a_history_is_offered_to_any_user(data, trained):
    for user, slate in enumerate(slates(trained, data)):
        own = set(data.events.items[data.events.of_user(user)].tolist())
        assert len(slate) == 10
        assert not own & set(slate), data.users.id(user)


def test_users_with_distinct_histories_get_distinct_slates(data, trained):
    histories = {tuple(trained.histories.of(user)) for user in range(len(data.users))}
    distinct = {tuple(slate) for slate in slates(trained, data)}
    assert len(distinct) > 0.95 * len(histories)


def test_served_counts_are_those_of_all_events(data, trained):
    served, measured = (
        next(one for one in leaves(bundle.pipeline) if one.title == "rank").features.popularity
        for bundle in (trained, trained.as_measured())
    )
    train = data.split(protocol=trained.about.split["protocol"]).train
    assert served.tolist() == data.events.popularity.tolist()
    assert measured.tolist() == train.popularity.tolist()


def test_measured_figures_are_those_of_evaluate(data, trained):
    for part in ("valid", "test"):
        found = evaluate(trained, data, on=part)
        for name, interval in trained.about.measured[part].metrics.items():
            assert found.metrics["pipeline"].metrics[name] == interval


def test_time_limits_change_neither_training_nor_measured_figures(data):
    limited = replace(
        RECIPE, expression=RECIPE.expression.replace("nearest % 20", "Within(nearest % 20, ms=1e-6)")
    )
    plain, guarded = (
        shortlist.train(recipe, data, protocol="leave-last-out", refit=False) for recipe in (RECIPE, limited)
    )
    assert time_limited(guarded.pipeline) == ["nearest"]
    for name, tensor in plain.training_sample.items():
        assert torch.equal(guarded.training_sample[name], tensor)
    assert guarded.about.measured == plain.about.measured
    assert (
        evaluate(guarded, data).mean("pipeline") == guarded.about.measured["test"].metrics["recall@20"].mean
    )


def test_saved_bundle_holds_both_pipelines(data, trained, folder):
    loaded = load_recommender(folder / trained.about.split["protocol"])
    assert loaded.about == trained.about
    assert slates(loaded, data) == slates(trained, data)
    measured = slates(loaded.as_measured(), data)
    assert slates(trained.as_measured(), data) == measured != slates(loaded, data)
    assert torch.equal(loaded.histories.trained, trained.histories.trained)


def test_without_refit_the_measured_pipeline_is_served(data):
    kept = shortlist.train(RECIPE, data, protocol="leave-last-out", refit=False)
    assert kept.about.refit is None
    assert kept.as_measured() is kept
    assert len(kept.histories.items) == len(data.events)
    assert "This pipeline is served" in describe_training(kept.about)


WITH_EPOCHS = parse_recipe("""
pipeline = "sequence % 20 + grove % 20 + tree % 20 >> seen >> prerank % 10"

[stages.sequence]
type = "gru4rec"
[stages.sequence.train]
width = 8
epochs = 4
learning_rate = 0.05
[stages.grove]
type = "jtr"
[stages.grove.train]
width = 8
epochs = 3
leaf = 10
branch = 3
rounds = 3
round_epochs = 2
[stages.tree]
type = "tree"
[stages.tree.train]
method = "dtr-u"
scorer = "linear"
windows = [2, 1, 1]
min_history = 1
epochs = 2
[stages.seen]
type = "seen"
[stages.prerank]
type = "two-tower-scorer"
[stages.prerank.train]
epochs = 2
width = 8
""")


def test_refit_continues_for_a_share_of_the_best_epochs_or_trains_for_all_of_them(data, monkeypatch):
    rounds_of_trees, run, epochs = [], TreeTraining.run, CountedEpochs()

    def counted(self, until=None):
        index = run(self, until)
        rounds_of_trees.append(self.state.step // self.plan.eval_every)
        return index

    monkeypatch.setattr(TreeTraining, "run", counted)
    bundle = shortlist.train(WITH_EPOCHS, data, protocol="leave-last-out", progress=epochs)
    about = bundle.about
    best = {name: one.best_epoch for name, one in about.training.items() if one.mode is None}
    assert about.refit.epochs == best
    rounds = [name for name in best if name.startswith("grove.round-")]
    assert {"sequence", "grove", "tree", "prerank towers", *rounds} == best.keys()
    tasks = {"gru4rec": "sequence", "sasrec": "grove", "two-tower": "prerank towers"}
    tasks |= {f"jtr {number}": f"grove.round-{number}" for number in (1, 2, 3)}
    continued = best | {
        "sequence": math.ceil(CONTINUED * best["sequence"])
    }  # from the weights of the measured model
    assert continued["sequence"] < best["sequence"]
    for task, name in tasks.items():
        assert epochs.of[f"refit: {task}"] == continued.get(name, 0), name
    assert rounds_of_trees[-1] == best["tree"]
    assert any(epochs.of[f"refit: {task}"] < epochs.of[task] for task in tasks)
    assert about.refit.stages == tuple(WITH_EPOCHS.stages)
    assert "Served: all stages fitted again on" in describe_training(about)


def test_split_that_leaves_out_users_is_named_in_the_facts(data):
    bundle = shortlist.train(RECIPE, data, protocol="half-history", refit=False)
    assert bundle.about.split_warning.startswith("the split half-history leaves out")
    assert bundle.about.split_warning in bundle.about.warnings
    assert bundle.about.split_warning in evaluate(bundle, data).warnings


def log_with_late_items(n_users=120) -> Dataset:
    """Users visit old items, and new ones after the cut of a split in time: no nominator can retrieve those."""
    rng = np.random.default_rng(0)
    old = np.stack([rng.permutation(30)[:7] for _ in range(n_users)])
    items = np.column_stack([old, 30 + rng.integers(0, 10, (n_users, 3))])
    users, times = np.repeat(np.arange(n_users), 10), np.tile(np.arange(10), n_users) * 1000
    events = Interactions.of(users, items.ravel(), times, n_users=n_users, n_items=40)
    return Dataset("late", pa_ids("u", n_users), events, Catalog(pa_ids("i", 40), pa.table({})))


FUNNEL = """
pipeline = "popular % 20 + covisit % 20 >> seen >> first % 15 >> rank % 10"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.seen]
type = "seen"
[stages.first]
type = "feature-ranker"
[stages.first.train]
epochs = 1
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 1
[train]
requests = 60
"""


def test_refit_without_a_retrieved_target_keeps_the_measured_rankers_and_says_so(tmp_path):
    data = log_with_late_items()
    bundle = shortlist.train(parse_recipe(FUNNEL), data, tmp_path / "bundle", protocol="global-time")
    refit = bundle.about.refit
    assert refit.stages == ("popular", "covisit", "seen")
    assert refit.kept.keys() == {"first", "rank"}
    assert "targets was retrieved" in refit.kept["rank"]
    served, measured = (
        {one.title: one for one in leaves(pipeline)}
        for pipeline in (bundle.pipeline, bundle.as_measured().pipeline)
    )
    for name in refit.kept:
        assert served[name].network is measured[name].network
        assert served[name].features.popularity.tolist() == data.events.popularity.tolist()
    assert "Served: all stages but first, rank fitted again on 1,200 events" in describe_training(
        bundle.about
    )
    assert any("'rank' was not fitted again on all events" in text for text in bundle.about.warnings)
    assert load_recommender(tmp_path / "bundle").about == bundle.about
