import dataclasses

import pytest
import torch

from shortlist import __version__
from shortlist.artifact.store import Lineage
from shortlist.data import Dataset
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import leaves
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.about import OutOfFold
from shortlist.pipeline.recommender import Request
from shortlist.stages import TowerScorer
from shortlist.testing.stages import check_stage
from shortlist.train.context import no_history
from shortlist.train.models.counting.counts import PopularTrainer
from shortlist.train.pipeline import train_pipeline, user_histories
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.training_data.retrieved import fold_of
from shortlist.train.rankers.two_tower_scorer import TowerScorerTrainer
from shortlist.train.registry import TRAINERS
from tests.worlds import run_checked

SMALL = """
pipeline = "popular % 30 + covisit % 40 >> seen >> rank % 10"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 3
"""


def test_every_stage_of_a_trained_pipeline_keeps_its_contract(recommender):
    names = tuple(part.title for part in recommender.pipeline.nominators)
    for stage in leaves(recommender.pipeline):
        check_stage(stage, len(recommender.catalog), names)


def test_seed_determines_the_slates(world):
    recipe = parse_recipe(SMALL)
    query = world.split().test.query()
    slates = [
        run_checked(train_pipeline(recipe, world, seed).recommender.pipeline, query) for seed in (0, 0, 1)
    ]
    assert torch.equal(slates[0].items, slates[1].items)
    assert torch.equal(slates[0].scores, slates[1].scores)
    assert not torch.equal(slates[0].scores, slates[2].scores)


def test_held_out_events_do_not_change_any_stage(world):
    """With other relevant items of held-out users, not a bit of any stage changes."""
    split = world.split()
    items = world.events.items.copy()
    for cut, stop in zip(split.test.cuts, split.test.stops, strict=True):
        items[cut:stop] = 0
    changed = dataclasses.replace(world, events=dataclasses.replace(world.events, items=items))
    one_pipeline, other = (
        train_pipeline(parse_recipe(SMALL), one).recommender.pipeline for one in (world, changed)
    )
    for one, two in zip(leaves(one_pipeline), leaves(other), strict=True):
        assert all(torch.equal(tensor, two.tensors()[name]) for name, tensor in one.tensors().items())


@pytest.mark.parametrize("protocol", ["global-time", "leave-last-out"])
def test_pipeline_trains_under_every_protocol(world, protocol):
    trained = train_pipeline(parse_recipe(SMALL), world, split=world.split(protocol=protocol)).recommender
    run_checked(trained.pipeline, world.split(protocol=protocol).test.query())


def test_pipeline_of_nominators_alone_needs_no_out_of_fold_candidates(world):
    recipe = parse_recipe('pipeline = "popular % 5"\n[stages.popular]\ntype = "popular"')
    assert len(train_pipeline(recipe, world).recommender.recommend(Request()).items[0]) == 5


def test_guarded_stages_are_trained(world):
    guarded = SMALL.replace("rank % 10", "Within(rank, ms=1000) % 10").replace(
        "covisit % 40", "Optional(covisit % 40)"
    )
    trained = train_pipeline(parse_recipe(guarded), world).recommender
    assert (
        repr(trained.pipeline)
        == "popular % 30 + Optional(covisit % 40) >> seen >> Within(rank, ms=1000) % 10"
    )
    run_checked(trained.pipeline, world.split().test.query())


def test_unknown_training_keys_and_missing_trainers_are_refused(world):
    with pytest.raises(ConfigError, match=r"\[stages.rank.train\]: unknown key 'epoch'"):
        train_pipeline(parse_recipe(SMALL.replace("epochs", "epoch")), world)
    with pytest.raises(ConfigError, match=r"\[stages.rank.train\]: epochs must lie between"):
        train_pipeline(parse_recipe(SMALL.replace("epochs = 3", "epochs = 0")), world)
    with pytest.raises(ConfigError, match="requests must lie between"):
        train_pipeline(parse_recipe(SMALL + "\n[train]\nrequests = 0\n"), world)
    with pytest.raises(ConfigError, match=r"\[train\]: unknown key 'request'"):
        train_pipeline(parse_recipe(SMALL + "\n[train]\nrequest = 5\n"), world)
    without = {name: kind for name, kind in TRAINERS.items() if name != "popular"}
    with pytest.raises(ConfigError, match="no trainer for type 'popular'"):
        train_pipeline(parse_recipe(SMALL), world, trainers=without)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_histories_remember_every_event_of_every_user(world: Dataset, protocol):
    split = world.split(protocol=protocol)
    histories = user_histories(split)
    for user in range(len(world.users)):
        assert histories.of(user) == world.events.items[world.events.of_user(user)].tolist()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_trained_events_of_a_user_are_the_first_of_the_history(world: Dataset, protocol):
    split = world.split(protocol=protocol)
    histories = user_histories(split)
    for user in range(len(world.users)):
        own = world.events.of_user(user)
        inside = split.in_train[own].tolist()
        assert inside == [at < int(histories.trained[user]) for at in range(len(inside))]


def test_served_ranker_has_the_counts_of_all_training_events(world):
    rank = next(
        stage
        for stage in leaves(train_pipeline(parse_recipe(SMALL), world).recommender.pipeline)
        if stage.title == "rank"
    )
    assert rank.features.popularity.tolist() == world.split().train.popularity.tolist()


def test_every_ranker_is_trained_on_every_request(world, recipe, monkeypatch):
    seen = {"prerank": [], "rank": []}

    def spied(fit):
        def wrapped(self, settings, context):
            users = [int(user) for one in context.batches for user in one.query.user]
            seen[settings["name"]].append(users)
            return fit(self, settings, context)

        return wrapped

    for trainer in (FeatureRankerTrainer, TowerScorerTrainer):
        monkeypatch.setattr(trainer, "fit", spied(trainer.fit))
    train_pipeline(recipe, world)
    served, *copies = seen["prerank"]
    assert len(seen["rank"]) == 1
    assert sorted(seen["rank"][0]) == sorted(served)
    assert len(copies) == 2
    assert sorted(copies[0] + copies[1]) == sorted(
        served
    )  # each was trained without the requests of one fold


def test_candidates_of_a_fold_pass_stages_that_were_trained_without_it(world, recipe, monkeypatch):
    trained_on, passed = {}, []
    fit, raw = TowerScorerTrainer.fit, TowerScorer.raw

    def fitted(self, settings, context):
        stage = fit(self, settings, context)
        trained_on[id(stage.towers)] = {int(user) for one in context.batches for user in one.query.user}
        return stage

    def scored(self, query, found):
        passed.append((id(self.towers), set(query.user.tolist())))
        return raw(self, query, found)

    monkeypatch.setattr(TowerScorerTrainer, "fit", fitted)
    monkeypatch.setattr(TowerScorer, "raw", scored)
    ranked = []
    rank = FeatureRankerTrainer.fit

    def begins(self, settings, context):
        ranked.append(len(passed))
        return rank(self, settings, context)

    monkeypatch.setattr(FeatureRankerTrainer, "fit", begins)
    train_pipeline(recipe, world)
    copies = list(trained_on)[1:]
    through = [(towers, users) for towers, users in passed[: ranked[0]] if towers in copies]
    assert through
    assert all(not users & trained_on[towers] for towers, users in through)


def test_pre_ranker_of_a_fold_starts_from_the_towers_of_its_fold(world, recipe, monkeypatch):
    starts, fit = [], TowerScorerTrainer.fit

    def watched(self, settings, context):
        starts.append(id(context.fitted["towers"].model))
        return fit(self, settings, context)

    monkeypatch.setattr(TowerScorerTrainer, "fit", watched)
    train_pipeline(recipe, world)
    served, *copies = starts
    assert len(set(copies)) == 2  # half-history: nominators of other users, one fit per fold
    assert served == copies[0]


def test_recommender_holds_the_training_history_of_every_trained_stage(recommender):
    histories = recommender.about.training
    assert list(histories) == ["prerank", "rank", "towers"]
    assert histories["towers"].max_epochs == 3
    assert len(histories["towers"].validation) == histories["towers"].epochs
    assert histories["rank"].max_epochs == 8
    assert histories["rank"].best_epoch <= histories["rank"].epochs
    assert all(one.converged in (True, False) for one in histories.values())
    assert histories["rank"].mode == "harmonised"
    assert 0 < histories["rank"].retrieved.recall < 1


def test_about_holds_the_data_the_split_and_the_seed(world):
    split = world.split()
    about = train_pipeline(parse_recipe(SMALL, "small.toml"), world, seed=3).recommender.about
    assert (about.name, about.data, about.seed) == ("small", world.name, 3)
    assert (about.fingerprint, about.clock) == (world.fingerprint, world.clock)
    assert about.events == len(split.train)
    assert about.ends == split.train.times.max()
    assert about.split == dict(split.settings)
    assert about.package == __version__


def test_training_of_out_of_fold_nominators_is_not_recorded(world, monkeypatch):
    unrecorded, fit = [], PopularTrainer.fit

    def spied(self, settings, context):
        unrecorded.append(context.note is no_history)
        return fit(self, settings, context)

    monkeypatch.setattr(PopularTrainer, "fit", spied)
    train_pipeline(parse_recipe(SMALL + '[train]\nout_of_fold = "earlier"\n'), world)
    assert unrecorded == [True, False]


OTHERS = SMALL + '[train]\nout_of_fold = "other-users"\nfolds = 3\n'


def test_nominators_of_a_fold_are_trained_on_the_users_of_other_folds(world):
    users = []

    class Watched(PopularTrainer):
        def fit(self, settings, context):
            users.append(set(context.events.users.tolist()))
            return super().fit(settings, context)

    trained = train_pipeline(
        parse_recipe(OTHERS), world, trainers={**TRAINERS, "popular": Watched}
    ).recommender
    *folds, everyone = users
    assert len(folds) == 3
    assert not set.intersection(*folds) & everyone  # every user is left out of one fold
    assert set.union(*folds) == everyone
    run_checked(trained.pipeline, world.split().test.query())
    assert trained.about.out_of_fold == OutOfFold("other-users", 20_000, 3)


def test_validation_requests_of_a_ranker_come_from_all_folds(world):
    batches = []

    class Watched(FeatureRankerTrainer):
        def fit(self, settings, context):
            batches.extend(context.batches)
            return super().fit(settings, context)

    recipe = parse_recipe(OTHERS.replace("folds = 3", "folds = 5"))
    train_pipeline(recipe, world, trainers={**TRAINERS, "feature-ranker": Watched})
    fold = fold_of(world.split().train.n_users, 5, 0)
    folds = [set(fold[one.query.user.numpy()].tolist()) for one in batches]
    assert all(len(one) == 1 for one in folds)
    validation = [min(one) for one in folds[4::5]]  # every fifth batch is for validation
    assert max(map(validation.count, range(5))) <= len(validation) / 2


def test_ranker_without_retrieved_targets_is_refused(world):
    class Nothing(PopularTrainer):
        def fit(self, settings, context):
            made = super().fit(settings, context)
            return made.renewed(order=made.order[:0], share=made.share[:0])

    recipe = SMALL.replace("popular % 30 + covisit % 40", "popular").replace("feature-ranker", "mlp-ranker")
    recipe = recipe.replace('[stages.covisit]\ntype = "co-visit"\n', "")
    with pytest.raises(DataError, match=r"\[stages.rank\]: rank: weights: none of \d+ targets was retrieved"):
        train_pipeline(parse_recipe(recipe, "p.toml"), world, trainers={**TRAINERS, "popular": Nothing})


def test_selector_uses_the_vectors_of_a_nominator_with_other_users(world):
    recipe = OTHERS.replace("covisit", "nearest").replace("co-visit", "mf")
    recipe = recipe.replace(">> rank % 10", ">> rank % 10 >> diverse % 5") + (
        '[stages.diverse]\ntype = "diverse"\n[stages.diverse.train]\nby = "nearest"\n'
        "[stages.nearest.train]\nepochs = 1\nwidth = 4\n"
    )
    trained = train_pipeline(parse_recipe(recipe), world).recommender
    run_checked(trained.pipeline, world.split().test.query())


def test_unknown_and_renamed_out_of_fold_settings_are_refused(world):
    with pytest.raises(
        ConfigError, match=r"\[train\]: out_of_fold must be one of auto, earlier, other-users, got 'never'"
    ):
        train_pipeline(parse_recipe(SMALL + '[train]\nout_of_fold = "never"\n'), world)
    with pytest.raises(ConfigError, match=r"\[train\]: unknown key 'rehearse'; .*renamed to out_of_fold"):
        train_pipeline(parse_recipe(SMALL + '[train]\nrehearse = "earlier"\n'), world)


def test_bundle_holds_a_sample_of_the_training_candidates(world, tmp_path):
    trained = train_pipeline(parse_recipe(SMALL), world).recommender
    assert set(trained.training_sample) == {
        f"rank.{what}" for what in ("items", "scores", "target", "pool", "request", "recall")
    }
    save_recommender(trained, tmp_path / "bundle", Lineage("data", 0, "test", {}))
    loaded = load_recommender(tmp_path / "bundle")
    assert all(
        torch.equal(one, loaded.training_sample[name]) for name, one in trained.training_sample.items()
    )
