"""Refresh: new events in histories and counts at once; trained again and kept only if not worse."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.artifact import load
from shortlist.data import Dataset, HeldOut, Interactions, Vocabulary
from shortlist.data.dataset import build_dataset
from shortlist.data.raw_events import RawEvents
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.grammar import leaves
from shortlist.pipeline import Request, load_recommender, parse_recipe
from shortlist.state.histories import UserHistories
from shortlist.train import TRAINERS
from shortlist.train.bundle import save_trained, train
from shortlist.train.renewal import refresh as refresh_module
from shortlist.train.renewal.bundle_rows import in_rows_of, trained_events
from shortlist.train.renewal.count_stages import is_counts_only
from shortlist.train.renewal.refresh import refresh
from shortlist.train.renewal.retrain import compared, requests_new_to
from tests.train.logs import log
from tests.worlds import tiny_recommender

RECIPE = """
name = "small"
pipeline = "popular % 30 + covisit % 40 + mf % 20 >> seen >> rank % 10"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.mf]
type = "mf"
[stages.mf.train]
epochs = 1
width = 8
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 2
"""
POOR = """
name = "poor"
pipeline = "popular % 5"
[stages.popular]
type = "popular"
"""
NEW_USER, NEW_ITEM = 5, 7  # rows of the world whose ids are only in the later log


def log_of(world: Dataset, mask: np.ndarray) -> Dataset:
    """The events under a mask as a data set of its own, prepared from ids: rows have other numbers."""
    events = world.events.where(mask)
    order = np.argsort(events.times, kind="stable")[::-1]
    ids = [
        pa.array(names).take(pa.array(rows[order]))
        for names, rows in ((world.users.ids, events.users), (world.items.ids, events.items))
    ]
    raw = RawEvents(*ids, pa.array(events.times[order]), pa.array(events.weights[order]))
    return build_dataset(raw, "log", split_settings={"protocol": "half-history"})


def early_events(world: Dataset) -> np.ndarray:
    """The first 80 % of the events without one user and one item."""
    early = world.events.times < np.quantile(world.events.times, 0.8)
    return early & (world.events.users != NEW_USER) & (world.events.items != NEW_ITEM)


@pytest.fixture(scope="module")
def later(world):
    return log_of(world, np.ones(len(world.events), bool))


@pytest.fixture(scope="module")
def old(world, tmp_path_factory):
    """A bundle of the earlier events: one user and one item appear later."""
    folder = tmp_path_factory.mktemp("old") / "bundle"
    train(parse_recipe(RECIPE, "small.toml"), log_of(world, early_events(world)), folder)
    return folder


@pytest.fixture(scope="module")
def new(old, later, tmp_path_factory):
    folder = tmp_path_factory.mktemp("new") / "bundle"
    refresh(old, later, folder)
    return load_recommender(folder)


def ids_of(dataset: Dataset, user: object) -> list[object]:
    """The items of a user in order, by id."""
    row = dataset.users.row(user)
    events = dataset.events
    return dataset.items.ids_of(events.items[events.starts[row] : events.starts[row + 1]])


def test_histories_hold_all_events_of_all_users_and_new_users_are_known(world, later, new):
    known = set(new.catalog.vocabulary.ids.to_pylist())
    assert world.items.id(NEW_ITEM) not in known
    assert len(new.users) == len(later.users)
    for user in later.users.ids.to_pylist():
        rows = new.history(Request(user))
        assert new.catalog.vocabulary.ids_of(rows) == [one for one in ids_of(later, user) if one in known]


def test_facts_say_what_was_added_and_what_only_training_can_add(world, later, old, new):
    facts, before = new.about.refresh, load_recommender(old).about
    bundle = load_recommender(old)
    added = set(later.users.ids.to_pylist()) - set(bundle.users.ids.to_pylist())
    unknown = bundle.catalog.vocabulary.rows(later.items.ids.to_pylist()) < 0
    left_out = int(unknown[later.events.items].sum())
    assert (facts.new_users, facts.unknown_items, facts.left_out) == (
        len(added),
        int(unknown.sum()),
        left_out,
    )
    assert world.users.id(NEW_USER) in added
    assert (facts.events, facts.users) == (len(world.events) - left_out, len(later.users))
    assert facts.stages == ("popular", "covisit", "rank")
    assert new.about.ends == int(world.events.times.max()) > before.ends
    assert (new.about.measured, new.about.fingerprint) == (before.measured, before.fingerprint)


def test_count_stages_are_those_of_a_fit_on_all_events_and_weights_stay(old, later, new):
    before = {stage.title: stage for stage in leaves(load_recommender(old).pipeline)}
    after = {stage.title: stage for stage in leaves(new.pipeline)}
    counts = in_rows_of(load_recommender(old), later).events.popularity
    assert counts[after["popular"].order[:5]].tolist() == sorted(counts.tolist(), reverse=True)[:5]
    assert after["popular"].limit == before["popular"].limit == 30
    assert after["rank"].features.popularity.tolist() == counts.tolist()
    for name, tensor in before["mf"].tensors().items():
        assert torch.equal(after["mf"].tensors()[name], tensor), name


def test_measured_pipeline_stays_as_it_was(old, new):
    for one, other in zip(
        *(leaves(b.as_measured().pipeline) for b in (load_recommender(old), new)), strict=True
    ):
        assert all(torch.equal(other.tensors()[name], tensor) for name, tensor in one.tensors().items())


def test_no_user_is_offered_an_item_of_the_new_history(later, new):
    table = new.recommend_all().read_all()
    shown = set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    seen = {(user, item) for user in later.users.ids.to_pylist() for item in ids_of(later, user)}
    assert not shown & seen
    assert len(set(table["user"].to_pylist())) == len(later.users)


def test_bundle_is_replaced_in_place_or_written_beside(old, later, tmp_path):
    before = load(old).version
    done = refresh(old, later, tmp_path / "beside")
    assert load(old).version == before
    assert load(tmp_path / "beside").version == done.bundle.about.version != before
    again = refresh(tmp_path / "beside", later)
    assert again.bundle.about.refresh.new_users == 0
    assert load(tmp_path / "beside").version == again.bundle.about.version
    with pytest.raises(ArtifactError, match="already holds an artifact"):
        refresh(old, later, tmp_path / "beside")


def test_recommender_in_memory_is_refreshed_without_a_folder(old, later):
    bundle = load_recommender(old)
    assert refresh(bundle, later).bundle.about.refresh is not None
    assert load(old).version == bundle.about.version


def test_log_with_the_new_events_alone_is_refused(world, old):
    few = log_of(world, world.events.users < 20)
    with pytest.raises(
        DataError, match=r"has events of .* users the bundle remembers; .* shortlist data append"
    ):
        refresh(old, few)


def test_log_without_times_and_bundle_without_recipe_are_refused(old, later):
    with pytest.raises(DataError, match="its times are positions in the log, those of the bundle timestamps"):
        refresh(old, replace(later, clock="order"))
    with pytest.raises(ConfigError, match="has no recipe"):
        refresh(replace(load_recommender(old), recipe=None), later)


def with_recipe(bundle, text: str, data: Dataset, folder):
    """A saved bundle that is trained again from another recipe than it came from."""
    save_trained(replace(bundle, recipe=parse_recipe(text, "other.toml")), data, folder, force=False)
    return folder


def test_better_bundle_is_kept_with_the_numbers(world, later, tmp_path):
    early = log_of(world, early_events(world))
    poor = with_recipe(train(parse_recipe(POOR, "poor.toml"), early), RECIPE, early, tmp_path / "bundle")
    before = load(poor).version
    done = refresh(poor, later, retrain=True)
    comparison, new = done.comparison, done.bundle
    assert done.kept
    assert comparison.requests > 0
    assert comparison.new > comparison.old
    assert f"{comparison.new:.4f} now" in str(comparison)
    assert (new.about.refresh, len(new.users)) == (None, len(later.users))
    assert new.about.split == early.split().settings
    assert new.about.refit.events == len(later.events)
    assert load(poor).version == new.about.version != before


def files_of(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_worse_bundle_is_rejected_before_its_refit_and_leaves_the_old_one_as_it_was(
    old, later, tmp_path, monkeypatch
):
    downgraded = with_recipe(load_recommender(old), POOR, later, tmp_path / "bundle")
    before = files_of(downgraded)
    monkeypatch.setattr(refresh_module, "refit", lambda *_: pytest.fail("fitted again for nothing"))
    done = refresh(downgraded, later, retrain=True)
    assert not done.kept
    assert done.comparison.new < done.comparison.old
    assert "the old bundle is kept" in str(done.comparison)
    assert done.bundle.about.version == load(downgraded).version
    assert files_of(downgraded) == before
    assert [path.name for path in downgraded.parent.iterdir()] == ["bundle"]


@pytest.fixture
def no_training(monkeypatch):
    monkeypatch.setattr(refresh_module, "train_measured", lambda *_: pytest.fail("trained before the checks"))


@pytest.mark.usefixtures("no_training")
def test_retraining_on_other_data_is_refused_before_it_starts(world, old, later):
    with pytest.raises(DataError, match=r"has events of .* users the bundle remembers"):
        refresh(old, log_of(world, world.events.users < 20), retrain=True)
    bundle = load_recommender(old)
    seen = replace(bundle, histories=replace(bundle.histories, trained=bundle.histories.starts.diff()))
    same = log_of(world, early_events(world))
    with pytest.raises(DataError, match=r"expected validation requests .* got none among .* shortlist train"):
        refresh(seen, same, retrain=True)


@pytest.mark.usefixtures("no_training")
def test_checkpoints_inside_a_bundle_are_refused(old, later, tmp_path):
    before = files_of(old)
    for out in (None, tmp_path / "new"):
        with pytest.raises((ArtifactError, ConfigError), match=r"lies inside the (bundle|artifact)"):
            refresh(old, later, out, retrain=True, checkpoint_dir=old / "checkpoints")
    assert files_of(old) == before
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_training")
def test_full_disk_is_found_before_training_again(old, later, monkeypatch):
    usage = shutil.disk_usage(old)._replace(free=10)
    monkeypatch.setattr("shortlist.train.preparation.checks.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ConfigError, match=r"bundle: the bundle needs about .* 10 bytes are free there"):
        refresh(old, later, retrain=True)


def test_mistyped_bundle_leaves_no_folder_behind(later, tmp_path):
    with pytest.raises(ArtifactError, match="not found"):
        refresh(tmp_path / "no" / "such" / "bundle", later)
    assert not list(tmp_path.iterdir())


def test_text_ids_of_new_users_turn_integer_ids_into_text(old, later):
    ids = [f"new-{one}" if row == 0 else str(one) for row, one in enumerate(later.users.ids.to_pylist())]
    done = refresh(load_recommender(old), replace(later, users=Vocabulary.of(ids))).bundle
    known = load_recommender(old).users.ids.to_pylist()
    assert done.users.ids.to_pylist()[: len(known)] == [str(one) for one in known]
    assert done.history(Request(known[1])) == done.history(Request(str(known[1]))) != []
    assert done.history(Request(ids[0])) != []


def histories(*sequences, trained):
    starts = np.concatenate([[0], np.cumsum([len(one) for one in sequences])])
    items = [item for one in sequences for item in one]
    return UserHistories(torch.tensor(starts), torch.tensor(items), torch.tensor(trained))


def test_trained_events_are_the_old_ones_where_the_history_still_begins_with_them():
    old = histories([1, 2, 3], [4, 5], [6, 7], trained=[2, 2, 2])
    events: Interactions = log([1, 2, 9, 3], [5, 4, 1], [6], [8, 8], n_items=10)
    assert trained_events(old, events).tolist() == [2, 3, 1, 0]


def test_only_trainers_without_gradient_steps_declare_that_they_count():
    assert {name for name, one in TRAINERS.items() if is_counts_only(one)} == {
        "popular",
        "recent",
        "co-visit",
    }


def test_a_bundle_is_as_good_as_itself_on_all_validation_requests(old, world):
    bundle = load_recommender(old)
    data = log_of(world, early_events(world))
    split = data.split(**bundle.about.split)
    same = compared(bundle, bundle, data, requests_new_to(bundle, data, split.valid))
    assert (same.requests, same.test.difference) == (len(split.valid), 0.0)
    assert same.old == same.new == pytest.approx(bundle.about.measured["valid"].metrics["recall@20"].mean)


def test_request_is_not_new_if_a_late_event_moves_a_training_event_behind_its_cut():
    bundle = tiny_recommender()
    trained = replace(bundle.histories, trained=torch.tensor([2, 0, 0]))  # user a: items 1 and 2 of 1, 2, 3
    old = replace(bundle, histories=trained)
    users, items = pa.array(["a"] * 4 + ["b"] * 2), pa.array(["late", "i1", "i2", "i3", "i7", "i9"])
    data = build_dataset(RawEvents(users, items, np.arange(6)))
    starts = data.events.starts
    cuts = [starts[0] + 2, starts[0] + 3, starts[1] + 1]  # before i2, before i3, before i9
    begins, stops = starts[[0, 0, 1]], starts[[1, 1, 2]]
    requests = HeldOut(data.events, begins, np.array(cuts), stops)
    assert requests_new_to(old, data, requests).cuts.tolist() == cuts[1:]
