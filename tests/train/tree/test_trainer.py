from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import Catalog, Interactions, Query, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.models.sequence.sasrec import SASRecConfig
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recipe import read_recipe
from shortlist.pipeline.recommender import Request
from shortlist.pipeline.shipped import FOLDER
from shortlist.settings import settings_of
from shortlist.simulate import embedded
from shortlist.testing.stages import check_stage
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.loop.horizon import horizons
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.objectives.full_stage import LoggedListSettings
from shortlist.train.tree import trainer as trees
from shortlist.train.tree.plan import METHODS, PROFILES, SETTINGS, TreePlan, plan_of
from shortlist.train.tree.trainer import TreeTrainer
from tests.train.tree.small import cyclic_events, held_out, same

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


@pytest.fixture(autouse=True)
def quick_estimator(monkeypatch):
    """An estimator that is trained for one epoch."""
    small = SASRecConfig(width=8, heads=1, blocks=1)
    monkeypatch.setattr(
        trees,
        "SequenceTrainer",
        lambda model, config, device: SequenceTrainer(model=model, config=small, epochs=1, device=device),
    )


def context(events=None, seed=0):
    own, users = held_out(cyclic_events())
    events, valid = (own, users) if events is None else (events, None)
    items = Vocabulary.of([f"i{row}" for row in range(events.n_items)])
    return TrainContext(events, Catalog.bare(items), clock="order", seed=seed, valid=valid)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_recipe_of_a_tree_trains_saves_and_recommends(name, world, tmp_path):
    text = (FOLDER / f"{name}.toml").read_text()
    assert "epochs = 5\n" in text
    sizes = {**SMALL, "layers": [12], "windows": [3, 2, 1], "batch_size": 512}
    lines = "\n".join(f"{key} = {value!r}" for key, value in sizes.items() if f"\n{key} = " not in text)
    recommender = train(parse_recipe(text.replace("epochs = 5\n", f"epochs = 1\n{lines}\n")), world)
    save_recommender(recommender, tmp_path / "bundle", Lineage())
    back = load_recommender(tmp_path / "bundle")
    user = world.users.id(int(world.split().train.users[0]))
    for request in (Request(user=user), Request(user=user, k=5)):
        one, two = recommender.recommend(request), back.recommend(request)
        assert torch.equal(one.items, two.items)
        items = one.items[one.candidates.valid].tolist()
        assert len(items) == len(set(items)) == (request.k or 20)
        assert not set(items) & set(recommender.history(request))
    (tree,) = recommender.pipeline.nominators
    check_stage(tree, len(recommender.catalog))
    assert tree.product == (name == "plt")


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(method):
    trainer = TreeTrainer(method, epochs=2, **SMALL)
    one, two, other = (trainer.fit({}, context(seed=seed)).tensors() for seed in (0, 0, 1))
    assert same(one, two)
    assert not same(one, other)


def test_a_tree_predicts_the_next_item_of_a_cycle():
    stage = TreeTrainer("dtr-t", epochs=30, learning_rate=2e-2, **SMALL).fit({"beam": 10}, context())
    starts = torch.arange(40).view(4, 10, 1)
    steps = torch.arange(6)
    histories = (starts % 10 + steps) % 10 + starts // 10 * 10  # [4, 10, 6]
    target = (starts + 6) % 10 + starts // 10 * 10
    nominated = (stage % 3).nominate(Query.of(histories.view(40, 6).tolist())).items
    assert float((nominated == target.view(40, 1)).any(1).float().mean()) > 0.8
    assert stage.beam == 10


def test_settings_of_the_plan_are_settings_of_the_trainer_except_those_of_the_stage():
    declared = {one.name: one for one in TreeTrainer.declared()}
    own = {"method", "profile", "device", "epochs", "minutes", "objective"}
    own |= {one.name for one in settings_of(LoggedListSettings)}
    assert set(declared) - own == {one.name for one in SETTINGS} - {"beam", "product"}
    assert all(declared[one.name] is one for one in SETTINGS if one.name in declared)


def test_with_settings_changes_own_settings_and_overrides():
    one = TreeTrainer("dtr-u", epochs=2, rounds=3)
    other = one.with_settings(epochs=4, windows=[2, 1])
    assert (other.method, other.epochs, other.overrides) == ("dtr-u", 4, {"rounds": 3, "windows": (2, 1)})
    assert one == TreeTrainer("dtr-u", epochs=2, rounds=3) != other


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_settings_not_given_are_those_of_method_and_profile(method, profile):
    assert TreeTrainer(method, profile=profile).plan() == plan_of(method, profile)
    assert TreeTrainer(method, profile=profile, rounds=3).plan(beam=7) == plan_of(
        method, profile, rounds=3, beam=7
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "dtm"}, "method must be one of"),
        ({"profile": "fast"}, "profile must be one of"),
        ({"sampler": "none"}, "sampler must be one of tree, uniform"),
        ({"branch": 1}, "branch must be 2 or more"),
        ({"train_beam": -1}, "train_beam must lie"),
        ({"beam": 20}, "unknown key 'beam'"),
        ({"cap": 20}, "cap was renamed to instances_per_item"),
    ],
)
def test_wrong_settings_are_refused_before_training(given, message):
    with pytest.raises(ConfigError, match=message):
        TreeTrainer(**given)


WRONG = [("branch = -1", "branch must lie"), ('mix = "much"', "mix must be a number")]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_a_wrong_setting_is_reported_with_its_table(line, message, world):
    text = f'pipeline = "tree % 20"\n[stages.tree]\ntype = "tree"\n[stages.tree.train]\n{line}\n'
    with pytest.raises(ConfigError, match=rf"\[stages.tree.train\]: {message}"):
        train(parse_recipe(text), world)


def test_epochs_set_the_steps_per_round():
    given = context()
    count = sum(max(length - 2, 0) for length in given.events.lengths)
    for epochs, batch in ((10, 64), (3, 1), (7, 100_000)):
        trainer = TreeTrainer("dtr-t", epochs=epochs, **{**SMALL, "batch_size": batch})
        plan = trainer._with_epochs(given, trainer.plan())
        shown = plan.total * min(batch, count)
        assert epochs * count - plan.rounds * min(batch, count) < shown <= epochs * count
        assert plan.eval_every == plan.steps
        assert plan.warmup <= plan.steps
    bare = TreeTrainer("dtr-t", **SMALL)
    assert bare._with_epochs(given, bare.plan()) == bare.plan()


def test_otm_starts_from_tree_and_scorer_of_jtm(monkeypatch):
    plans = []
    real = trees.TreeTraining

    def recorded(plan, training_set, *rest, **more):
        plans.append((plan, training_set))
        return real(plan, training_set, *rest, **more)

    monkeypatch.setattr(trees, "TreeTraining", recorded)
    stage = TreeTrainer("otm", epochs=2, spare_leaves=0.2, **SMALL).fit({}, context())
    (first, _), (second, training_set) = plans
    assert (first.update, first.loss, first.sampler, first.labels) == ("jtm", "binary", "uniform", "plain")
    assert second == replace(
        first, sampler="beam", labels="model", update="none", negatives=4, learning_rate=1e-3
    )
    assert first.learning_rate == TreePlan.learning_rate
    assert sorted(training_set.order.tolist()) == list(range(40))
    leaves = stage.index.tree.item_of_leaf
    assert leaves[leaves >= 0].tolist() == training_set.order.tolist()
    assert set(training_set.weights) == set(stage.index.scorer.state_dict())


def test_only_rectified_labels_train_an_estimator(monkeypatch):
    monkeypatch.setattr(trees, "SequenceTrainer", lambda **given: pytest.fail("not needed"))
    TreeTrainer("dtr-t", epochs=1, **SMALL).fit({}, context())


def test_a_log_with_short_histories_only_is_refused_before_training():
    events = Interactions.of(np.zeros(4, int), np.arange(4))
    with pytest.raises(DataError, match="more than 4 events to train on, got none; lower min_history"):
        TreeTrainer("dtr-t", **{**SMALL, "min_history": 4}).fit({}, context(events))


@pytest.mark.parametrize("n_items", [1, 2])
def test_a_catalogue_of_one_or_two_items_gives_a_stage(n_items):
    events = Interactions.of(np.zeros(12, int), np.arange(12) % n_items)
    stage = TreeTrainer("dtr-t", epochs=1, **SMALL).fit({}, context(events))
    check_stage(stage, n_items)


def test_the_first_tree_can_cluster_items_by_their_users():
    stage = TreeTrainer("dtr-u", epochs=1, order="vectors", **SMALL).fit({}, context())
    assert sorted(stage.index.tree.item_of_leaf.tolist()) == list(range(40))


def test_settings_of_the_stage_outrank_those_of_the_plan():
    stage = TreeTrainer("plt", epochs=1, **SMALL).fit(
        {"name": "t", "product": False, "exclude_seen": True}, context()
    )
    assert (stage.name, stage.product, stage.exclude_seen) == ("t", False, True)


def test_a_ranker_after_several_nominators_uses_the_tree_score():
    """The recipe `deep` with a shorter training."""
    shorter = "epochs = 1\nwindows = [4, 2, 1, 1]"
    text = (FOLDER / "deep.toml").read_text().replace("epochs = 3", shorter)
    world = embedded(size="small")
    pipeline = train(parse_recipe(text), world, seed=0).pipeline
    assert [part.title for part in pipeline.nominators] == ["tree", "covisit", "towers", "popular"]
    ranker = next(stage for stage in pipeline.stages if stage.title == "rank")
    assert "tree.score" in getattr(ranker, "inner", ranker).features.names


@pytest.mark.parametrize(("method", "names"), [("dtr-u", ["oak"]), ("otm", ["oak.jtm", "oak"])])
def test_the_training_history_is_noted_once(method, names):
    """The JTM training that OTM starts from has a name of its own."""
    noted = []
    listening = replace(context(), note=lambda name, history: noted.append((name, history)))
    TreeTrainer(method=method, epochs=2, **SMALL).fit({"name": "oak"}, listening)
    assert [name for name, _ in noted] == names
    history = dict(noted)["oak"]
    assert history.epochs == history.max_epochs == len(history.validation) == 2
    assert history.best_epoch in (1, 2)


def test_refit_with_fewer_rounds_does_not_continue_from_one_with_more(tmp_path):
    trainer = TreeTrainer("dtr-u", epochs=2, **SMALL)

    def tensors(rounds, folder=None):
        made = replace(context(cyclic_events()), best_epochs={"tree": rounds}, checkpoint_dir=folder)
        return trainer.fit({"name": "tree"}, made).tensors()

    more = tensors(2, tmp_path)
    fewer = tensors(1, tmp_path)
    assert not same(fewer, more)
    assert same(fewer, tensors(1))


def test_shipped_trees_train_on_short_histories():
    for name in SHIPPED:
        recipe = read_recipe(FOLDER / f"{name}.toml")
        assert recipe.stages["tree"].train["min_history"] == 1


def test_label_horizon_of_zero_is_chosen_on_validation_and_kept_when_the_tree_is_fitted_again(monkeypatch):
    notes, tried = {}, []
    run = trees.TreeTraining.run

    def recorded(self, until=None):
        tried.append(self.plan.ahead)
        return run(self, until)

    monkeypatch.setattr(trees.TreeTraining, "run", recorded)
    given = replace(context(), note=notes.__setitem__)
    settings = {**SMALL, "scorer": "linear", "epochs": 1, "ahead": 0}
    stage = TreeTrainer("dtr-u", **settings).fit({"name": "tree"}, given)
    assert tried[:-1] == list(horizons(given.valid))
    assert tried[-1] == notes["tree"].ahead
    tried.clear()
    again = replace(given, valid=None, warm={"tree": stage})
    TreeTrainer("dtr-u", **settings).fit({"name": "tree"}, again)
    assert tried == [notes["tree"].ahead]
    tried.clear()
    TreeTrainer("dtr-u", **settings).fit({"name": "tree"}, replace(given, valid=None))
    assert tried == [1]


def test_training_stops_after_its_minutes_and_says_so():
    noted = {}
    listening = replace(context(), note=noted.__setitem__)
    stage = TreeTrainer("dtr-u", epochs=200, minutes=1e-6, **SMALL).fit({"name": "tree"}, listening)
    assert noted["tree"].stopped == "stopped by the time limit"
    assert len(noted["tree"].validation) == 1, "the weights of the last step are measured"
    check_stage(stage, 40)


def test_tree_without_updates_continues_from_the_same_tree_and_its_weights(monkeypatch):
    trainer = TreeTrainer("dtr-u", epochs=4, order="vectors", update="none", **{**SMALL, "rounds": 1})
    first = trainer.fit({"name": "tree"}, context())
    begun = []
    run = trees.TreeTraining.run

    def recorded(self, until=None):
        begun.append(
            (self.plan.total, {k: v.clone() for k, v in self.state.index.scorer.state_dict().items()})
        )
        return run(self, until)

    monkeypatch.setattr(trees.TreeTraining, "run", recorded)
    plain = replace(context(), warm={})
    trainer.fit({"name": "tree"}, plain)
    for own in (plain, replace(plain, valid=None)):
        stage = trainer.fit({"name": "tree"}, replace(own, warm={"tree": first}, best_epochs={"tree": 1}))
        assert torch.equal(stage.index.tree.item_of_leaf, first.index.tree.item_of_leaf)
    steps = [total for total, _ in begun]
    assert steps == [steps[0], -(-steps[0] // 2), -(-steps[0] // 5)]
    assert not same(begun[0][1], first.index.scorer.state_dict())
    assert same(begun[1][1], first.index.scorer.state_dict())
