"""JTRTrainer: what it promises of answers, and every corner of a catalogue."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import Interactions, half_history
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.index.exact import without
from shortlist.index.jtr import lost_by_beam
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.jtr import JTRTrainer
from shortlist.train.jtr.validation import judge_of
from shortlist.train.loop.convergence import course

TINY = JTRTrainer(
    width=16,
    max_history=8,
    epochs=2,
    batch_size=32,
    leaf=4,
    branch=3,
    rounds=2,
    round_epochs=1,
    taught_beam=2,
    device="cpu",
)


@pytest.fixture
def chains() -> Interactions:
    """Two kinds of users who walk their own ten items over and over."""
    items = [(step % 10) + 10 * (user % 2) for user in range(40) for step in range(20)]
    return Interactions.of(np.repeat(np.arange(40), 20), np.array(items), n_items=20)


def parts(learned):
    encoder, index = learned
    return {**encoder.state_dict(), **index.tensors()}


@pytest.mark.parametrize("negatives", [50, 2], ids=["all", "drawn"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(chains, negatives):
    trainer = replace(TINY, negatives=negatives)
    one, two, other = (parts(trainer.learn(chains, seed=seed)) for seed in (0, 0, 1))
    assert one["nodes"].isfinite().all()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["nodes"], other["nodes"])


def test_items_stand_in_as_many_leaves_as_they_may(chains):
    for copies in (1, 2):
        _, index = replace(TINY, copies=copies, leaf=6).learn(chains)
        counts = torch.bincount(index.tree.rows, minlength=20)
        assert counts.min() >= 1
        assert counts.max() == copies
        assert index.tree.widest <= 6


def test_encoder_items_and_nodes_all_learn(chains):
    start = parts(replace(TINY, rounds=1, round_learning_rate=1e-9).learn(chains))
    end = parts(replace(TINY, rounds=1, round_learning_rate=1e-2).learn(chains))
    for name in ("items.weight", "begin", "nodes"):
        assert (end[name] - start[name]).abs().max() > 1e-3


def test_progress_never_tells_more_than_there_is(chains):
    told = []
    TINY.learn(chains, progress=lambda *what: told.append(what))
    assert all(done <= whole for _, done, whole in told)
    assert {what for what, _, _ in told} == {"sasrec", "jtr 1", "jtr 2"}


def test_it_finds_more_than_popularity_and_loses_little_by_its_beam(world):
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
    reached = judge_of(encoder, split.test, 0, beam=3)(index)
    history, truth = split.test.query(width=100).history, split.test.relevant()
    popular = torch.from_numpy(split.train.popularity).float().expand(len(history), -1)
    hits = is_in(without(popular, history).topk(20).indices, truth).sum(1)
    assert reached > 1.1 * float((hits / (truth >= 0).sum(1).clamp(min=1)).mean())
    with torch.no_grad():
        lost = lost_by_beam(index, encoder.vectors(), encoder.users(history), 20, 3, history)
    assert lost < 0.4


def test_the_best_round_is_kept(chains, monkeypatch):
    said = iter([0.1, 0.3, 0.2])  # before any round, then once after each
    monkeypatch.setattr("shortlist.train.jtr.trainer.judge_of", lambda *_: lambda index: next(said))
    kept = parts(TINY.learn(chains))
    monkeypatch.undo()
    first = parts(replace(TINY, rounds=1).learn(chains))
    assert all(torch.equal(kept[name], first[name]) for name in kept)


def test_how_the_epochs_of_its_encoder_went_is_told(world):
    split = world.split()
    heard = {}
    context = TrainContext(split.train, world.catalog, valid=split.valid, note=heard.__setitem__)
    trainer = replace(TINY, epochs=3)
    trainer.fit({"name": "grove"}, context)
    judged = trainer.sasrec().learn(split.train, split.valid, context.seed).judged
    assert len(judged) == 3
    assert heard == {"grove": course(judged, 3, trainer.patience)}


def test_without_cases_nobody_knows_how_well_it_went(chains, world):
    heard = {}
    TINY.fit({}, TrainContext(chains, world.catalog, note=heard.__setitem__))
    assert (heard["jtr"]["epochs"], heard["jtr"]["converged"]) == (2, None)


def test_nothing_to_learn_from_still_gives_a_tree():
    events = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=30)
    encoder, index = TINY.learn(events)
    assert sorted(index.tree.rows.tolist()) == list(range(30))
    assert encoder.scores(torch.tensor([[0, 1]])).isfinite().all()


@pytest.mark.parametrize(
    "given", [{"leaf": 100}, {"branch": 50, "leaf": 1}, {"branch": 2, "leaf": 19}], ids=str
)
def test_catalogues_smaller_than_a_leaf_or_a_branch_are_learned_too(chains, given):
    _, index = replace(TINY, **given).learn(chains)
    assert set(index.tree.rows.tolist()) == set(range(20))
    assert index.nodes.isfinite().all()


def test_one_item_is_enough():
    events = Interactions.of(np.arange(5), np.zeros(5, int), n_items=1)
    _, index = TINY.learn(events)
    assert index.tree.rows.tolist() == [0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"branch": 1}, "branch must be at least 2"),
        ({"leaf": 0}, "leaf must be at least 1"),
        ({"copies": 0}, "copies must be at least 1"),
        ({"taught_beam": 0}, "taught_beam must be at least 1"),
        ({"vote_beam": 0}, "vote_beam must be at least 1"),
        ({"round_epochs": 0}, "round_epochs must be at least 1"),
        ({"round_learning_rate": 0.0}, "round_learning_rate must lie above 0"),
    ],
    ids=str,
)
def test_settings_no_training_can_run_with_are_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        JTRTrainer(**given)


def test_rounds_are_checked_with_the_other_numbers(chains):
    with pytest.raises(ConfigError, match="rounds must lie between"):
        replace(TINY, rounds=0).learn(chains)


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


def test_a_recipe_trains_one_and_its_artifact_answers_the_same(world, tmp_path):
    made = train(parse_recipe(RECIPE, "grove.toml"), world)
    save_recommender(made, tmp_path / "kept", Lineage())
    back = load_recommender(tmp_path / "kept")
    user, met = world.users.id(0), tuple(world.catalog.vocabulary.ids_of([3, 4, 5]))
    for request in (Request(user=user), Request(history=met), Request()):
        one, two = made.recommend(request), back.recommend(request)
        assert one.items.shape == (1, 10)
        assert (one.items >= 0).all()
        assert torch.equal(one.items, two.items)
        assert torch.equal(one.scores, two.scores)
