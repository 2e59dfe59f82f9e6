"""What can be refused is refused before the first stage is fitted; a trainer says what it needs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.errors import ConfigError, DataError, ShortlistError
from shortlist.models.registry import MODELS
from shortlist.pipeline import Recipe, parse_recipe
from shortlist.train import train
from shortlist.train.preparation.checks import (
    ChecksData,
    EstimatesMemory,
    check_before_training,
    check_free_space,
    check_places,
)
from shortlist.train.registry import TRAINERS, make_trainer
from tests.conftest import TINY

PIPELINE = TINY.splitlines()[2]


def checked(text: str, dataset: Dataset, **options) -> tuple[str, ...]:
    return check_before_training(parse_recipe(text, "tiny.toml"), dataset, dataset.split(), **options)


@pytest.fixture
def no_fit(monkeypatch):
    """Every trainer of a stage fails when it is used, but for the mask of items, which is checked by making it."""
    stages = {kind for name, kind in TRAINERS.items() if name != "available"}
    for kind in {*stages, *(type(make_trainer(name)) for name in MODELS)}:
        monkeypatch.setattr(kind, "fit", lambda *_: pytest.fail("fitted before the checks"))


def test_recipe_that_can_be_trained_passes(world):
    assert checked(TINY, world) == ()


REFUSALS = {
    "an unknown start": ('start = "towers"', 'start = "tower"', "start must name a nominator with a TwoTower model"),
    "a start of another kind": ('start = "towers"', 'start = "covisit"', "got 'covisit'; the pipeline has towers"),
    "an unknown stage of diverse": (
        "strength = 0.1", 'strength = 0.1\n[stages.diverse.train]\nby = "rank"', "by must name a nominator"
    ),
    "an unknown nominator": (
        'type = "feature-ranker"', 'type = "feature-ranker"\nnominators = ["seen"]',
        "unknown nominator 'seen'; expected some of popular, covisit, towers",
    ),
    "a slate that can never be filled": (
        PIPELINE, 'pipeline = "popular % 3 + covisit % 2 + towers % 2 >> seen >> prerank >> rank >> diverse % 10"',
        "diverse % 10 can never be filled, at most 7 candidates arrive there; write diverse % 7",
    ),
    "a cut before a larger slate": (
        "rank % 40 >> diverse % 10", "rank % 5 >> diverse % 10", "at most 5 candidates arrive there"
    ),
    "an index of a missing kind": (
        'type = "two-tower"', 'type = "two-tower"\nindex = "missing"', "index must be one of"
    ),
    "a device that is not there": ("width = 16", 'width = 16\ndevice = "cuda"', "torch finds no GPU"),
    "a device of a ranker that is not there": (
        'type = "feature-ranker"\n\n[stages.rank.train]', 'type = "din-ranker"\n[stages.rank.train]\ndevice = "cuda"',
        "torch finds no GPU",
    ),
    "a column that the catalogue does not have": (
        'type = "feature-ranker"', 'type = "mlp-ranker"\ncolumns = ["nope"]',
        "'nope' is not a column of the catalogue; it has ",
    ),
    "an index of a model without vectors": (
        'type = "co-visit"', 'type = "ease"\nindex = "hnsw"', "needs a model whose scores are products of vectors"
    ),
    "a setting of an index that a model does not have": (
        'type = "co-visit"', 'type = "item-knn"\nef = 10', "got ItemKNN; remove index, ef and nprobe"
    ),
    "a setting of another index": (
        'type = "two-tower"', 'type = "two-tower"\nef = 10', 'index "exact" has no settings'
    ),
    "a factor of zero": (
        'type = "co-visit"', 'type = "co-visit"\nhistory_decay = 0.0', "history_decay must lie between"
    ),
    "a precision that a CPU lacks": (
        'type = "co-visit"', 'type = "tree"\n[stages.covisit.train]\nprecision = "bfloat16"', "needs a GPU"
    ),
    "an unknown category": (
        'type = "seen"', 'type = "available"\nonly = ["no such category"]', "which is not in the catalogue"
    ),
    "a missing setting": ("batch_size = 256", "batch_sizes = 256", "unknown key 'batch_sizes'"),
}  # fmt: skip


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize(("old", "new", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_mistake_in_a_recipe_is_refused_before_the_first_fit(world, monkeypatch, old, new, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert old in TINY
    with pytest.raises(ConfigError, match=r"^tiny\.toml") as refused:
        train(parse_recipe(TINY.replace(old, new), "tiny.toml"), world)
    assert message in str(refused.value)


def test_cut_that_cuts_nothing_is_a_warning_of_the_bundle(world):
    (warning,) = checked(TINY.replace("prerank % 80", "prerank % 500"), world)
    assert warning == "prerank % 500 cuts nothing: at most 160 candidates arrive there"


def log(lengths: list[int], clock: str = "ms") -> Dataset:
    users = np.repeat(np.arange(len(lengths)), lengths)
    items = np.arange(len(users)) % 20
    events = Interactions.of(users, items, np.arange(len(users)), None, len(lengths), 20)
    rows = Vocabulary.of(list(range(len(lengths))))
    catalog = Catalog.bare(Vocabulary.of(list(range(20))))
    return Dataset("small", rows, events, catalog, clock=clock, split_settings={"protocol": "leave-last-out"})


@pytest.mark.usefixtures("no_fit")
def test_log_that_is_too_short_for_rankers_is_refused_before_the_first_fit():
    with pytest.raises(DataError, match="expected users with events before and after a cut, got none"):
        checked(TINY, log([3] * 10))


def test_window_of_days_needs_times():
    text = 'pipeline = "popular % 10"\n[stages.popular]\ntype = "popular"\ndays = 3.0\n'
    with pytest.raises(ConfigError, match=r"\[stages.popular\]: a window of 3 days needs times"):
        checked(text, log([5] * 10, clock="order"))
    assert checked(text, log([5] * 10)) == ()


@pytest.mark.parametrize(
    ("kind", "setting"), [("ease", "item-knn"), ("sasrec", "batch_size"), ("mf", "width")]
)
def test_training_that_needs_more_memory_than_there_is_is_refused_with_numbers(world, kind, setting):
    text = f'pipeline = "it % 10"\n[stages.it]\ntype = "{kind}"\n'
    with pytest.raises(ConfigError) as refused:
        checked(text, world, available=lambda device: 1000)
    assert "[stages.it]: training needs about" in str(refused.value)
    assert f"{len(world.items):,} items" in str(refused.value)
    assert "1 kB are available" in str(refused.value)
    assert setting in str(refused.value)
    assert checked(text, world, available=lambda device: None) == ()


def test_measured_pipeline_beside_the_refit_is_counted(world):
    stages = '[stages.it]\ntype = "mf"\n[stages.it.train]\ndevice = "cpu"\n[stages.ease]\ntype = "ease"\n'
    text = 'pipeline = "it % 10 + ease % 10"\n' + stages
    mf, ease = make_trainer("mf", device="cpu"), make_trainer("ease")
    alone = max(one.memory(world.events, world.catalog) for one in (mf, ease))
    with pytest.raises(ConfigError, match=r"during the refit \(--no-refit\).*SHORTLIST_MEMORY_CHECK=off"):
        checked(text, world, available=lambda device: alone)
    assert checked(text, world, available=lambda device: alone, refit=False) == ()
    beside = mf.size(world.events, world.catalog) + ease.size(world.events, world.catalog)
    assert checked(text, world, available=lambda device: alone + beside) == ()


ESTIMATED = [name for name in MODELS if isinstance(make_trainer(name), EstimatesMemory)]


@pytest.mark.parametrize("name", ESTIMATED)
def test_estimated_size_is_that_of_the_weights(world, name):
    trainer, events = make_trainer(name), world.events
    size = trainer.size(events, world.catalog)
    assert trainer.memory(events, world.catalog) > size > 0
    if hasattr(trainer, "begin"):
        weights = trainer.begin(events, world.catalog).state_dict().values()
        assert size == sum(one.numel() * one.element_size() for one in weights)


NEGATIVES = {
    "sasrec, sampled": ("sasrec", {"batch_size": 32, "loss": "sampled", "negatives": 3000}),
    "sasrec, bce": ("sasrec", {"batch_size": 8, "loss": "bce", "negatives": 500}),
    "mf, softmax": ("mf", {"batch_size": 512, "negatives": 5000}),
    "mf, ccf": ("mf", {"batch_size": 256, "loss": "ccf", "negatives": 300}),
    "din": ("din", {"batch_size": 4, "negatives": 800, "instances": 20}),
    "two-tower": ("two-tower", {"full": 0, "negatives": 9000}),
}


@pytest.mark.parametrize(("name", "settings"), NEGATIVES.values(), ids=NEGATIVES.keys())
def test_estimated_memory_covers_the_largest_tensor_of_a_batch(world, name, settings):
    events = world.events.where(world.events.users < 40)
    trainer = make_trainer(name, epochs=1, device="cpu", **settings)
    largest = 0

    def record(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        trainer.learn(events, catalog=world.catalog)
    assert trainer.memory(events, world.catalog) > largest > 5 * trainer.size(events, world.catalog)


@pytest.mark.parametrize(("batch_size", "negatives"), [(2, 70), (16, 5)])
def test_estimated_memory_of_din_covers_small_batches(batch_size, negatives):
    users, random = np.repeat(np.arange(20), 80), np.random.default_rng(0)
    events = Interactions.of(users, random.integers(0, 300, len(users)), np.arange(len(users)))
    sizes = {"batch_size": batch_size, "negatives": negatives, "instances": 2 * batch_size}
    trainer = make_trainer("din", epochs=1, device="cpu", **sizes)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as recorded:
        trainer.learn(events)
    found = recorded.profiler.kineto_results.events()
    changes = sorted((one.start_ns(), one.nbytes()) for one in found if one.name() == "[memory]")
    assert trainer.memory(events, None) > max(np.cumsum([size for _, size in changes]))


def test_model_that_cannot_be_made_without_memory_has_no_estimate(world, monkeypatch):
    trainer = make_trainer("sasrec")
    monkeypatch.setattr(type(trainer), "begin", lambda *_: torch.zeros(1, device="meta").item())
    assert trainer.size(world.events, world.catalog) == 0


def test_every_model_checks_its_data():
    assert all(isinstance(make_trainer(name), ChecksData) for name in MODELS)


def test_full_disk_is_found_before_the_work(world, recipe: Recipe, tmp_path):
    with pytest.raises(
        ConfigError, match=r"out: the bundle needs about .* 10 bytes are free there; free space"
    ):
        check_free_space(tmp_path / "deep" / "out", recipe, world, free=lambda folder: 10)
    check_free_space(tmp_path / "deep" / "out", recipe, world)


def test_places_that_cannot_be_written_are_named_as_they_were_given(tmp_path):
    for options in (
        {"out": Path("/proc/nowhere/out")},
        {"out": None, "checkpoint_dir": Path("/proc/nowhere")},
    ):
        with pytest.raises(OSError, match="No such file") as refused:
            check_places(**options)
        assert refused.value.filename == str(options["out"] or options["checkpoint_dir"])
    check_places(tmp_path / "out", checkpoint_dir=tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_fit")
def test_checks_come_before_the_work_of_train(world, recipe, tmp_path, monkeypatch):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ShortlistError, match="out: is a file"):
        train(recipe, world, tmp_path / "out")
    monkeypatch.setattr("shortlist.train.preparation.checks.available_memory", lambda device: 0)
    bad = replace(recipe, expression=recipe.expression.replace(">> seen", "> seen"))
    with pytest.raises(ConfigError, match="write >> for >"):
        train(bad, world)
