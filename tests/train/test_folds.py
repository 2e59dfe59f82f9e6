"""Out-of-fold candidates: restricting the pool, and the requests of a refit."""

import numpy as np
import torch

from shortlist.data import Candidates, Dataset
from shortlist.grammar import leaves
from shortlist.pipeline import TYPES, Recipe, parse_recipe
from shortlist.train.folds import compact, nominators_of, restricted
from shortlist.train.pipeline import context_of, train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.refit import refit
from shortlist.train.registry import TRAINERS
from tests.train.test_pipeline import SMALL

THREE = SMALL.replace("popular % 30 +", "popular % 30 + nearest % 25 +") + (
    '[stages.nearest]\ntype = "item-knn"\n[train]\nrequests = 60\n'
)


def work(recipe: Recipe) -> PipelineTrainer:
    return PipelineTrainer.of(recipe, TYPES, TRAINERS)


def folds_of(recipe: Recipe, data: Dataset):
    split = data.split()
    return work(recipe).folds(context_of(data, split), split)


def test_restricted_candidates_are_those_of_a_pool_without_the_nominator(world):
    whole = folds_of(parse_recipe(THREE), world)
    fewer = parse_recipe(
        THREE.replace(" + nearest % 25", "").replace('[stages.nearest]\ntype = "item-knn"\n', "")
    )
    expected = folds_of(fewer, world)
    got = whole.restricted(["popular", "covisit"])
    assert list(nominators_of(got.parts[0])) == ["popular", "covisit"]
    assert "nearest" not in got.parts[0].stages
    for one, other in zip(got.batches(0), expected.batches(0), strict=True):
        assert one.targets.tolist() == other.targets.tolist()
        for row in range(len(one.targets)):
            assert _scored(one.found, row) == _scored(other.found, row)


def _scored(found, row):
    valid = found.valid[row]
    columns = [found.columns[name][row][valid] for name in sorted(found.columns)]
    values = [found.items[row][valid].float(), found.scores[row][valid], *columns]
    table = torch.nan_to_num(torch.stack(values), nan=-9.0).T.tolist()
    return sorted([round(value, 5) for value in one] for one in table)


def test_compact_keeps_candidates_and_their_order(world):
    batch = folds_of(parse_recipe(THREE), world).batches(0)[0]
    every_second = batch.found.keep(torch.arange(batch.found.shape[1]) % 2 == 0)
    made = compact(every_second)
    assert made.shape[1] < every_second.shape[1]
    for row in range(len(made.items)):
        assert (
            made.items[row][made.valid[row]].tolist()
            == every_second.items[row][every_second.valid[row]].tolist()
        )
    assert torch.equal(restricted(made, ["popular", "nearest", "covisit"]).items, made.items)


def test_training_with_given_folds_equals_training_without(world):
    recipe = parse_recipe(THREE)
    split = world.split()
    given = train_pipeline(recipe, world, split=split, folds=folds_of(recipe, world)).recommender
    query = split.test.query()
    assert torch.equal(
        given.pipeline(query, _nothing(query)).items,
        train_pipeline(recipe, world, split=split).recommender.pipeline(query, _nothing(query)).items,
    )


def _nothing(query):
    return Candidates.none(len(query))


def test_refit_trains_rankers_on_held_out_requests_first(world):
    run = train_pipeline(parse_recipe(THREE), world)
    split = world.split()
    stages = {stage.title: stage for stage in leaves(run.recommender.pipeline)}
    made = work(parse_recipe(THREE)).with_held_out(run.folds, stages, split, 0)
    held_out = [{int(user) for one in part.batches for user in one.query.user} for part in made.parts]
    assert set.union(*held_out) == set(np.concatenate([split.valid.users, split.test.users]).tolist())
    assert len(made) == 60  # as many as the recipe allows, so none of the measured run
    assert len(held_out) == 2  # a stage before another ranker is trained without the requests it passes on
    assert not held_out[0] & held_out[1]
    assert all(
        one.stages["nearest"] is stages["nearest"] for one in made.parts
    )  # fitted without their events


def test_refit_fits_no_nominator_out_of_fold(world, monkeypatch):
    run = train_pipeline(parse_recipe(THREE), world)
    fitted = []
    fit = PipelineTrainer._fitted

    def counted(self, name, context):
        fitted.append((name, len(context.events)))
        return fit(self, name, context)

    monkeypatch.setattr(PipelineTrainer, "_fitted", counted)
    refit(run, world)
    everything = len(world.events)
    nominators = [one for one in fitted if one[0] != "rank"]
    assert sorted(nominators) == sorted(
        (name, everything) for name in ("covisit", "nearest", "popular", "seen")
    )
