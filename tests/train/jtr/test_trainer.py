"""JTRTrainer: quality, reproducibility, small catalogues, settings."""

import numpy as np
import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import HeldOut, Interactions, half_history
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.index.exact import mask_rows
from shortlist.index.jtr import grow, lost_by_beam
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.jtr import JTRTrainer
from shortlist.train.jtr.trainer import validation_recall
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.validation import validation_metric
from tests.train.epochs import CountedEpochs

TINY = JTRTrainer(
    width=16,
    max_history=8,
    epochs=2,
    batch_size=32,
    leaf=4,
    branch=3,
    rounds=2,
    round_epochs=1,
    train_beam=2,
    device="cpu",
)


@pytest.fixture
def chains() -> Interactions:
    """Two groups of users, each cycling through its own ten items."""
    items = [(step % 10) + 10 * (user % 2) for user in range(40) for step in range(20)]
    return Interactions.of(np.repeat(np.arange(40), 20), np.array(items), n_items=20)


def parts(learned):
    encoder, index = learned
    return {**encoder.state_dict(), **index.tensors()}


@pytest.mark.parametrize("negatives", [50, 2], ids=["all", "sampled"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(chains, negatives):
    trainer = TINY.with_settings(negatives=negatives)
    one, two, other = (parts(trainer.learn(chains, seed=seed)) for seed in (0, 0, 1))
    assert one["nodes"].isfinite().all()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["nodes"], other["nodes"])


def test_items_are_in_up_to_copies_leaves(chains):
    for copies in (1, 2):
        _, index = TINY.with_settings(copies=copies, leaf=6).learn(chains)
        counts = torch.bincount(index.tree.rows, minlength=20)
        assert counts.min() >= 1
        assert counts.max() == copies
        assert index.tree.widest <= 6


def test_encoder_items_and_nodes_are_all_trained(chains):
    start = parts(TINY.with_settings(rounds=1, round_learning_rate=1e-9).learn(chains))
    end = parts(TINY.with_settings(rounds=1, round_learning_rate=1e-2).learn(chains))
    for name in ("items.weight", "start_token", "nodes"):
        assert (end[name] - start[name]).abs().max() > 1e-3


def test_progress_never_exceeds_its_total(chains):
    reports = []
    TINY.learn(chains, progress=lambda *report: reports.append(report))
    assert all(done <= total for _, done, total in reports)
    assert {task for task, _, _ in reports} == {"sasrec", "jtr 1", "jtr 2"}


def test_recall_beats_popularity_and_the_beam_loses_little(world):
    split = half_history(world.events, seed=0, held_out=0.2)
    trainer = JTRTrainer(
        width=32,
        max_history=30,
        epochs=25,
        batch_size=32,
        learning_rate=3e-3,
        patience=4,
        leaf=20,
        rounds=2,
        round_epochs=4,
        device="cpu",
    )
    encoder, index = trainer.learn(split.train, split.valid, beam=3)
    recall = validation_recall(encoder, split.test, 0, beam=3)(index)
    history, relevant = split.test.query(width=100).history, split.test.relevant()
    popular = torch.from_numpy(split.train.popularity).float().expand(len(history), -1)
    hits = is_in(mask_rows(popular, history).topk(20).indices, relevant).sum(1)
    assert recall > 1.1 * float((hits / (relevant >= 0).sum(1).clamp(min=1)).mean())
    with torch.no_grad():
        lost = lost_by_beam(index, encoder.vectors(), encoder.users(history), 20, 3, history)
    assert lost < 0.4


def test_the_best_round_is_returned(chains, monkeypatch):
    recalls = iter([0.1, 0.3, 0.2])  # before any round, then after each
    monkeypatch.setattr(
        "shortlist.train.jtr.trainer.validation_recall", lambda *_: lambda index: next(recalls)
    )
    kept = parts(TINY.learn(chains))
    monkeypatch.undo()
    first = parts(TINY.with_settings(rounds=1).learn(chains))
    assert all(torch.equal(kept[name], first[name]) for name in kept)


def test_the_history_of_the_encoder_and_of_rounds_up_to_the_best_is_noted(chains, world, monkeypatch):
    recalls = iter([0.1, 0.2, 0.3, 0.25, 0.4, 0.35, 0.2, 0.1])  # before any round, then after each epoch
    monkeypatch.setattr(
        "shortlist.train.jtr.trainer.validation_recall", lambda *_: lambda index: next(recalls)
    )
    split = half_history(chains, seed=0, held_out=0.2)
    noted = {}
    context = TrainContext(split.train, world.catalog, valid=split.valid, note=noted.__setitem__)
    trainer = TINY.with_settings(epochs=3, rounds=3, round_epochs=2)
    trainer.fit({"name": "grove"}, context)
    validation = trainer.encoder.learn(split.train, split.valid, context.seed).validation
    assert len(validation) == 3
    assert noted.pop("grove") == history_of(validation, 3, trainer.encoder.patience)
    found = {name: (one.validation, one.best_epoch, one.converged) for name, one in noted.items()}
    assert found == {"grove.round-1": ((0.2, 0.3), 2, None), "grove.round-2": ((0.25, 0.4), 2, None)}


def test_refit_runs_the_rounds_up_to_the_best_each_for_its_best_epochs(chains, world):
    epochs, best = CountedEpochs(), {"grove": 1, "grove.round-1": 2, "grove.round-2": 1}
    context = TrainContext(chains, world.catalog, progress=epochs, best_epochs=best)
    trainer = TINY.with_settings(epochs=3, rounds=3, round_epochs=2)
    trainer.fit({"name": "grove"}, context)
    assert epochs.of == {"sasrec": 1, "jtr 1": 2, "jtr 2": 1}


def test_refit_runs_no_round_where_none_was_better_than_the_first_tree(chains, world):
    epochs = CountedEpochs()
    context = TrainContext(chains, world.catalog, progress=epochs, best_epochs={"grove": 1})
    TINY.fit({"name": "grove"}, context)
    assert epochs.of == {"sasrec": 1}


def test_without_validation_convergence_is_unknown(chains, world):
    noted = {}
    TINY.fit({}, TrainContext(chains, world.catalog, note=noted.__setitem__))
    assert (noted["jtr"].epochs, noted["jtr"].converged) == (2, None)


def test_without_events_there_is_still_a_tree():
    events = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=30)
    encoder, index = TINY.learn(events)
    assert sorted(index.tree.rows.tolist()) == list(range(30))
    assert encoder.scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    "given", [{"leaf": 100}, {"branch": 50, "leaf": 1}, {"branch": 2, "leaf": 19}], ids=str
)
def test_catalogues_smaller_than_a_leaf_or_a_branch_are_trained(chains, given):
    _, index = TINY.with_settings(**given).learn(chains)
    assert set(index.tree.rows.tolist()) == set(range(20))
    assert index.nodes.isfinite().all()


def test_a_catalogue_of_one_item_is_trained():
    events = Interactions.of(np.arange(5), np.zeros(5, int), n_items=1)
    _, index = TINY.learn(events)
    assert index.tree.rows.tolist() == [0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"branch": 1}, "branch must lie between 2"),
        ({"leaf": 0}, "leaf must lie between 1"),
        ({"copies": 0}, "copies must lie between 1"),
        ({"train_beam": 0}, "train_beam must lie between 1"),
        ({"vote_beam": 0}, "vote_beam must lie between 1"),
        ({"round_epochs": 0}, "round_epochs must lie between 1"),
        ({"round_learning_rate": 0.0}, "round_learning_rate must lie between"),
        ({"rounds": 0}, "rounds must lie between"),
        ({"width": 0}, "width must lie between"),
        ({"taught_beam": 3}, "taught_beam was renamed to train_beam"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        JTRTrainer(**given)


def test_settings_are_those_of_sasrec_and_its_own():
    settings = TINY.settings()
    assert list(settings) == [one.name for one in JTRTrainer.declared()]
    assert (settings["width"], settings["leaf"]) == (16, 4)
    assert TINY.with_settings(width=8).encoder.config.width == 8
    assert TINY.with_settings() == TINY


RECIPE = """
name = "grove"
pipeline = "jtr % 30 >> seen % 10"

[stages.jtr]
type = "jtr"
beam = 2
exclude_seen = true

[stages.jtr.train]
width = 16
max_history = 10
epochs = 1
leaf = 10
rounds = 2
round_epochs = 1
device = "cpu"

[stages.seen]
type = "seen"
"""


def test_a_recipe_trains_a_bundle_that_answers_the_same_after_loading(world, tmp_path):
    trained = train(parse_recipe(RECIPE, "grove.toml"), world)
    save_recommender(trained, tmp_path / "bundle", Lineage())
    back = load_recommender(tmp_path / "bundle")
    user, history = world.users.id(0), tuple(world.catalog.vocabulary.ids_of([3, 4, 5]))
    for request in (Request(user=user), Request(history=history), Request()):
        one, two = trained.recommend(request), back.recommend(request)
        assert one.items.shape == (1, 10)
        assert (one.items >= 0).all()
        assert torch.equal(one.items, two.items)
        assert torch.equal(one.scores, two.scores)


def test_validation_recall_of_a_full_width_beam_equals_exact_scoring(world):
    split = half_history(world.events, seed=0)
    torch.manual_seed(0)
    encoder = SASRec(SASRecConfig(world.events.n_items, 30, 16)).eval()
    index = grow(encoder.vectors(), 5, 20)
    recall = validation_recall(encoder, split.valid, 0, beam=10**6)(index)
    assert abs(recall - validation_metric(encoder, split.valid, 0)()) < 1e-6
    assert recall >= validation_recall(encoder, split.valid, 0, beam=1)(index)


def test_there_is_no_validation_recall_without_users():
    events = Interactions.of(np.zeros(3, int), np.arange(3))
    empty = np.empty(0, np.int64)
    encoder = SASRec(SASRecConfig(3, 5, 8))
    assert validation_recall(encoder, None, 0, 1) is None
    assert validation_recall(encoder, HeldOut(events, empty, empty, empty), 0, 1) is None
