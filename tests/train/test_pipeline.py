import dataclasses

import numpy as np
import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import Dataset
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recipe import leaves
from shortlist.pipeline.recommender import Request
from shortlist.testing.stages import check_stage
from shortlist.train import TRAINERS, train
from shortlist.train.context import forget
from shortlist.train.models.counts import PopularTrainer
from shortlist.train.pipeline import remember
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer, TowerScorerTrainer
from shortlist.train.rankers.retrieved import fold_of
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


def test_the_same_seed_gives_the_same_slates_and_another_seed_others(world):
    recipe = parse_recipe(SMALL)
    query = world.split().test.query()
    slates = [run_checked(train(recipe, world, seed).pipeline, query) for seed in (0, 0, 1)]
    assert torch.equal(slates[0].items, slates[1].items)
    assert torch.equal(slates[0].scores, slates[1].scores)
    assert not torch.equal(slates[0].scores, slates[2].scores)


def test_held_out_events_do_not_change_what_is_learned(world):
    """The answers of held-out users are replaced by nonsense: not a bit of any stage may change."""
    split = world.split()
    items = world.events.items.copy()
    for cases in (split.test,):
        for cut, stop in zip(cases.cuts, cases.stops, strict=True):
            items[cut:stop] = 0
    blind = dataclasses.replace(world, events=dataclasses.replace(world.events, items=items))
    seen, unseen = (train(parse_recipe(SMALL), one).pipeline for one in (world, blind))
    for one, two in zip(leaves(seen), leaves(unseen), strict=True):
        assert all(torch.equal(tensor, two.tensors()[name]) for name, tensor in one.tensors().items())


@pytest.mark.parametrize("protocol", ["global-time", "leave-last-out"])
def test_other_protocols_train_too(world, protocol):
    trained = train(parse_recipe(SMALL), world, split=world.split(protocol=protocol))
    run_checked(trained.pipeline, world.split(protocol=protocol).test.query())


def test_a_pipeline_of_nominators_alone_needs_no_rehearsal(world):
    recipe = parse_recipe('pipeline = "popular % 5"\n[stages.popular]\ntype = "popular"')
    assert len(train(recipe, world).recommend(Request()).items[0]) == 5


def test_guarded_stages_are_trained_as_well(world):
    guarded = SMALL.replace("rank % 10", "Within(rank, ms=1000) % 10").replace(
        "covisit % 40", "Optional(covisit % 40)"
    )
    trained = train(parse_recipe(guarded), world)
    assert (
        repr(trained.pipeline)
        == "popular % 30 + Optional(covisit % 40) >> seen >> Within(rank, ms=1000) % 10"
    )
    run_checked(trained.pipeline, world.split().test.query())


def test_unknown_training_keys_and_missing_trainers_are_refused(world):
    with pytest.raises(ConfigError, match=r"\[stages.rank.train\]: unknown key 'epoch'"):
        train(parse_recipe(SMALL.replace("epochs", "epoch")), world)
    with pytest.raises(ConfigError, match=r"\[stages.rank.train\]: epochs must lie between"):
        train(parse_recipe(SMALL.replace("epochs = 3", "epochs = 0")), world)
    with pytest.raises(ConfigError, match="requests must lie between"):
        train(parse_recipe(SMALL + "\n[train]\nrequests = 0\n"), world)
    with pytest.raises(ConfigError, match=r"\[train\]: unknown key 'request'"):
        train(parse_recipe(SMALL + "\n[train]\nrequest = 5\n"), world)
    without = {name: kind for name, kind in TRAINERS.items() if name != "seen"}
    with pytest.raises(ConfigError, match="no trainer for type 'seen'"):
        train(parse_recipe(SMALL), world, trainers=without)


def test_what_is_remembered_is_what_each_user_may_be_known_to_have_met(world: Dataset):
    split = world.split()
    histories = remember(split)
    for cases in (split.valid, split.test):
        for user, start, cut in zip(cases.users, cases.starts, cases.cuts, strict=True):
            assert histories.of(int(user)) == world.events.items[start:cut].tolist()
    learner = int(np.flatnonzero(split.train.lengths)[0])
    assert histories.of(learner) == split.train.items[split.train.of_user(learner)].tolist()


def test_memory_keeps_the_last_items_only(world: Dataset):
    assert max(len(remember(world.split(), last=5).of(user)) for user in range(50)) == 5


def test_the_ranker_is_served_with_the_counts_of_all_training_events(world):
    rank = next(
        stage for stage in leaves(train(parse_recipe(SMALL), world).pipeline) if stage.title == "rank"
    )
    assert rank.features.popularity.tolist() == world.split().train.popularity.tolist()


def test_no_request_teaches_two_stages(world, recipe, monkeypatch):
    seen = []
    fit = FeatureRankerTrainer.fit, TowerScorerTrainer.fit

    def spied(which):
        def wrapped(self, settings, context):
            seen.append({int(user) for one in context.rounds for user in one.query.user})
            return fit[which](self, settings, context)

        return wrapped

    monkeypatch.setattr(FeatureRankerTrainer, "fit", spied(0))
    monkeypatch.setattr(TowerScorerTrainer, "fit", spied(1))
    train(recipe, world)
    assert len(seen) == 2
    assert not seen[0] & seen[1]
    assert min(map(len, seen)) > 50


def test_how_the_training_of_every_learned_stage_went_stands_in_the_recommender(recommender):
    went = recommender.about["training"]
    assert list(went) == ["prerank", "rank", "towers"]
    assert went["towers"]["most"] == 3
    assert len(went["towers"]["judged"]) == went["towers"]["epochs"]
    assert went["rank"]["most"] == 8
    assert went["rank"]["best"] <= went["rank"]["epochs"]
    assert all(one["converged"] in (True, False) for one in went.values())


def test_what_only_rehearses_is_not_told_of(world, monkeypatch):
    unheard, fit = [], PopularTrainer.fit

    def spied(self, settings, context):
        unheard.append(context.note is forget)
        return fit(self, settings, context)

    monkeypatch.setattr(PopularTrainer, "fit", spied)
    train(parse_recipe(SMALL), world)
    assert unheard == [True, False]


OTHERS = SMALL + '[train]\nrehearse = "other-users"\nfolds = 3\n'


def test_nominators_of_a_rehearsal_by_other_users_never_met_who_is_asked(world):
    met = []

    class Watched(PopularTrainer):
        def fit(self, settings, context):
            met.append(set(context.events.users.tolist()))
            return super().fit(settings, context)

    trained = train(parse_recipe(OTHERS), world, trainers={**TRAINERS, "popular": Watched})
    *parts, everyone = met
    assert len(parts) == 3
    assert not set.intersection(*parts) & everyone  # whoever is left out of a part is in the two others
    assert set.union(*parts) == everyone
    run_checked(trained.pipeline, world.split().test.query())
    assert trained.about["rehearsal"] == {"rehearse": "other-users", "requests": 20_000, "folds": 3}


def test_who_judges_a_ranker_comes_from_all_parts_of_the_users(world):
    met = []

    class Watched(FeatureRankerTrainer):
        def fit(self, settings, context):
            met.extend(context.rounds)
            return super().fit(settings, context)

    recipe = parse_recipe(OTHERS.replace("folds = 3", "folds = 5"))
    train(recipe, world, trainers={**TRAINERS, "feature-ranker": Watched})
    part = fold_of(world.split().train.n_users, 5, 0)
    parts_of = [set(part[one.query.user.numpy()].tolist()) for one in met]
    assert all(len(one) == 1 for one in parts_of)
    held = [min(one) for one in parts_of[4::5]]  # every fifth round is held back
    assert max(map(held.count, range(5))) <= len(held) / 2


def test_a_ranker_that_nothing_is_found_for_is_named(world):
    class Nothing(PopularTrainer):
        def fit(self, settings, context):
            made = super().fit(settings, context)
            return made.renewed(order=made.order[:0], share=made.share[:0])

    recipe = SMALL.replace("popular % 30 + covisit % 40", "popular").replace("feature-ranker", "mlp-ranker")
    recipe = recipe.replace('[stages.covisit]\ntype = "co-visit"\n', "")
    with pytest.raises(
        DataError, match=r"\[stages.rank\]: rank: weights: none of \d+ wanted items was retrieved"
    ):
        train(parse_recipe(recipe, "p.toml"), world, trainers={**TRAINERS, "popular": Nothing})


def test_what_begins_with_a_nominators_weights_cannot_be_rehearsed_by_other_users(world):
    recipe = OTHERS.replace('type = "feature-ranker"', 'type = "two-tower-scorer"').replace(
        "epochs = 3", 'epochs = 1\nstart = "covisit"'
    )
    with pytest.raises(ConfigError, match=r"rank.*begins with the nominator 'covisit'.*rehearse = 'earlier'"):
        train(parse_recipe(recipe), world)


def test_a_way_to_rehearse_that_is_none_is_refused(world):
    with pytest.raises(
        ConfigError, match=r"\[train\]: rehearse must be one of earlier, other-users, got 'never'"
    ):
        train(parse_recipe(SMALL + '[train]\nrehearse = "never"\n'), world)


def test_a_bundle_keeps_a_sample_of_what_its_scorers_learned_on(world, tmp_path):
    trained = train(parse_recipe(SMALL), world)
    assert set(trained.record) == {
        f"rank.{what}" for what in ("items", "scores", "wanted", "pool", "request", "recall")
    }
    save_recommender(trained, tmp_path / "bundle", Lineage("data", 0, "test", {}))
    back = load_recommender(tmp_path / "bundle")
    assert all(torch.equal(one, back.record[name]) for name, one in trained.record.items())
