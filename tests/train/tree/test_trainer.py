from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import Catalog, Interactions, Query, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.pipeline.shipped import FOLDER
from shortlist.simulate import embedded
from shortlist.testing.stages import check_stage
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.tree import trainer as trees
from shortlist.train.tree.plan import METHODS, PROFILES, TreePlan, plan_of
from shortlist.train.tree.trainer import OWN, TreeTrainer
from tests.train.tree.small import held_out, same, walks

SHIPPED = ("tdm", "jtm", "otm", "plt", "dtr-u", "dtr-t", "dtr-t-rl")
SMALL = {
    "width": 8,
    "hidden": 6,
    "layers": (12,),
    "windows": (3, 2, 1),
    "min_history": 2,
    "negatives": 4,
    "rounds": 2,
    "batch_size": 64,
    "device": "cpu",
}
# Not for recipes: how a beam is wide is the stage's, the rest is for those who write plans.
NOT_IN_RECIPES = {
    "spread",
    "amsgrad",
    "lr_decay_steps",
    "restart",
    "clip",
    "precision",
    "compiled",
    "recorded",
    "beam",
    "product",
    "eval_every",
}


@pytest.fixture(autouse=True)
def quick_estimator(monkeypatch):
    """An estimator that is taught for one epoch."""
    quick = {"epochs": 1, "width": 8, "heads": 1, "blocks": 1}
    monkeypatch.setattr(trees, "SASRecTrainer", lambda width, device: SASRecTrainer(**quick, device=device))


def context(events=None, seed=0):
    learned, cases = held_out(walks())
    events, valid = (learned, cases) if events is None else (events, None)
    items = Vocabulary.of([f"i{row}" for row in range(events.n_items)])
    return TrainContext(events, Catalog.bare(items), clock="order", seed=seed, valid=valid)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_of_a_tree_trains_saves_and_recommends(name, world, tmp_path):
    text = (FOLDER / f"{name}.toml").read_text()
    assert "epochs = 5\n" in text
    sizes = {**SMALL, "layers": [12], "windows": [3, 2, 1], "batch_size": 512}
    words = "\n".join(f"{key} = {value!r}" for key, value in sizes.items())
    recommender = train(parse_recipe(text.replace("epochs = 5\n", f"epochs = 1\n{words}\n")), world)
    save_recommender(recommender, tmp_path / "kept", Lineage())
    back = load_recommender(tmp_path / "kept")
    user = world.users.id(int(world.split().train.users[0]))
    for request in (Request(user=user), Request(user=user, k=5)):
        one, two = recommender.recommend(request), back.recommend(request)
        assert torch.equal(one.items, two.items)
        kept = one.items[one.candidates.valid].tolist()
        assert len(kept) == len(set(kept)) == (request.k or 20)
        assert not set(kept) & set(recommender.history(request))
    (tree,) = recommender.pipeline.nominators
    check_stage(tree, len(recommender.catalog))
    assert tree.product == (name == "plt")


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(method):
    trainer = TreeTrainer(method, epochs=2, **SMALL)
    one, two, other = (trainer.fit({}, context(seed=seed)).tensors() for seed in (0, 0, 1))
    assert same(one, two)
    assert not same(one, other)


def test_a_tree_learns_what_comes_next_on_a_walk():
    stage = TreeTrainer("dtr-t", epochs=30, learning_rate=2e-2, **SMALL).fit({"beam": 10}, context())
    places = torch.arange(40).view(4, 10, 1)
    steps = torch.arange(6)
    walked = (places % 10 + steps) % 10 + places // 10 * 10  # [4, 10, 6]
    after = (places + 6) % 10 + places // 10 * 10
    named = (stage % 3).nominate(Query.of(walked.view(40, 6).tolist())).items
    assert float((named == after.view(40, 1)).any(1).float().mean()) > 0.8
    assert stage.beam == 10


def test_every_switch_of_a_plan_can_be_set_or_is_named_here_as_not_for_recipes():
    ours = {one.name for one in fields(TreeTrainer)} - set(OWN)
    theirs = {one.name for one in fields(TreePlan)}
    assert ours <= theirs
    assert theirs - ours <= NOT_IN_RECIPES
    assert not ours & NOT_IN_RECIPES


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_what_is_left_open_is_as_method_and_profile_say(method, profile):
    assert TreeTrainer(method, profile).plan() == plan_of(method, profile)
    assert TreeTrainer(method, profile, rounds=3).plan(beam=7) == plan_of(method, profile, rounds=3, beam=7)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"method": "dtm"}, "method must be one of"),
        ({"profile": "fast"}, "profile must be one of"),
        ({"sampler": "none"}, "sampler must be one of tree, uniform"),
        ({"branch": 1}, "branch must be 2 or more"),
        ({"train_beam": -1}, "train_beam must be 0 or more"),
    ],
)
def test_words_that_do_not_exist_are_refused_before_anything_is_trained(given, told):
    with pytest.raises(ConfigError, match=told):
        TreeTrainer(**given)


WRONG = [("branch = -1", "branch must lie"), ('mix = "much"', "mix must be a number")]


@pytest.mark.parametrize(("line", "told"), WRONG)
def test_a_recipe_says_where_a_wrong_number_stands(line, told, world):
    text = f'pipeline = "tree % 20"\n[stages.tree]\ntype = "tree"\n[stages.tree.train]\n{line}\n'
    with pytest.raises(ConfigError, match=rf"\[stages.tree.train\]: {told}"):
        train(parse_recipe(text), world)


def test_epochs_set_the_steps_of_a_round():
    given = context()
    count = sum(max(length - 2, 0) for length in given.events.lengths)
    for epochs, batch in ((10, 64), (3, 1), (7, 100_000)):
        trainer = TreeTrainer("dtr-t", epochs=epochs, **{**SMALL, "batch_size": batch})
        plan = trainer._paced(given, trainer.plan())
        shown = plan.total * min(batch, count)
        assert epochs * count - plan.rounds * min(batch, count) < shown <= epochs * count
        assert plan.eval_every == plan.steps
        assert plan.warmup <= plan.steps
    bare = TreeTrainer("dtr-t", **SMALL)
    assert bare._paced(given, bare.plan()) == bare.plan()


def test_otm_begins_with_a_tree_that_jtm_grew(monkeypatch):
    plans = []
    real = trees.TreeTraining

    def noted(plan, lesson, *rest, **more):
        plans.append((plan, lesson))
        return real(plan, lesson, *rest, **more)

    monkeypatch.setattr(trees, "TreeTraining", noted)
    stage = TreeTrainer("otm", epochs=2, spare=0.2, **SMALL).fit({}, context())
    (first, _), (second, lesson) = plans
    assert (first.update, first.loss, first.sampler, first.labels) == ("jtm", "binary", "uniform", "plain")
    assert second == replace(first, sampler="beam", labels="model", update="none", negatives=4, learning_rate=1e-3)
    assert first.learning_rate == TreePlan.learning_rate
    assert sorted(lesson.order.tolist()) == list(range(40))
    leaves = stage.index.tree.item_of_leaf
    assert leaves[leaves >= 0].tolist() == lesson.order.tolist()
    assert set(lesson.weights) == set(stage.index.scorer.state_dict())


def test_only_rectified_labels_ask_for_an_estimator(monkeypatch):
    monkeypatch.setattr(trees, "SASRecTrainer", lambda width, device: pytest.fail("nobody needs it"))
    TreeTrainer("dtr-t", epochs=1, **SMALL).fit({}, context())


def test_a_log_without_long_enough_histories_is_refused_before_anything_is_trained():
    events = Interactions.of(np.zeros(4, int), np.arange(4))
    with pytest.raises(DataError, match="more than 4 events to learn from, got none; lower min_history"):
        TreeTrainer("dtr-t", **{**SMALL, "min_history": 4}).fit({}, context(events))


@pytest.mark.parametrize("n_items", [1, 2])
def test_a_catalogue_of_one_or_two_items_gives_a_stage(n_items):
    events = Interactions.of(np.zeros(12, int), np.arange(12) % n_items)
    stage = TreeTrainer("dtr-t", epochs=1, **SMALL).fit({}, context(events))
    check_stage(stage, n_items)


def test_a_tree_can_be_laid_by_who_met_its_items():
    stage = TreeTrainer("dtr-u", epochs=1, order="vectors", **SMALL).fit({}, context())
    assert sorted(stage.index.tree.item_of_leaf.tolist()) == list(range(40))


def test_settings_of_the_stage_outrank_the_plan():
    stage = TreeTrainer("plt", epochs=1, **SMALL).fit(
        {"name": "t", "product": False, "exclude_seen": True}, context()
    )
    assert (stage.name, stage.product, stage.exclude_seen) == ("t", False, True)


def test_a_tree_beside_other_nominators_feeds_the_stages_after_it():
    """The recipe `deep` with a shorter lesson: what the tree says of a candidate reaches the ranker."""
    shorter = "epochs = 1\nmin_history = 4\nwindows = [4, 2, 1, 1]"
    text = (FOLDER / "deep.toml").read_text().replace("epochs = 3", shorter)
    world = embedded(size="small")
    pipeline = train(parse_recipe(text), world, seed=0).pipeline
    assert [part.title for part in pipeline.nominators] == ["tree", "covisit", "towers", "popular"]
    ranker = next(stage for stage in pipeline.stages if stage.title == "rank")
    assert "tree.score" in getattr(ranker, "inner", ranker).features.names


@pytest.mark.parametrize("method", ["dtr-u", "otm"])
def test_how_the_tree_was_judged_is_noted_once(method):
    heard = []
    listening = replace(context(), note=lambda name, facts: heard.append((name, facts)))
    TreeTrainer(method=method, epochs=2, **SMALL).fit({"name": "oak"}, listening)
    ((name, facts),) = heard  # what OTM begins with is not told of
    assert name == "oak"
    assert facts["epochs"] == facts["most"] == len(facts["judged"]) == 2
    assert facts["best"] in (1, 2)
