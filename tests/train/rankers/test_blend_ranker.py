"""The trainer of the blend ranker: it chooses the weight with the best NDCG, and works without LightGBM."""

import math

import pytest
import torch

from shortlist.data import Candidates
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages.boosted_ranker import n_tree_features, tree_features
from shortlist.train.context import TrainContext
from shortlist.train.rankers import boosted_ranker
from shortlist.train.rankers.blend_ranker import DEPTH, WEIGHTS, BlendRankerTrainer, chosen_weight
from tests.stages.small_features import small_features
from tests.stages.test_boosted_ranker import stumps
from tests.train.rankers.requests import context_of, share_right

QUICK = BlendRankerTrainer(epochs=3, hidden=(8,), trees=10, min_leaf_size=2)


@pytest.fixture
def context(world) -> TrainContext:
    return context_of(world)


def ndcg_by_hand(items: list[int], targets: set[int]) -> float:
    gain = sum(1 / math.log2(place + 2) for place, item in enumerate(items[:DEPTH]) if item in targets)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(len(targets), DEPTH)))


def test_ranker_learns_that_the_nominators_rank_is_right(context):
    pytest.importorskip("lightgbm")
    notes = {}
    stage = QUICK.fit({"name": "rank"}, context_with_note(context, notes))
    assert share_right(stage, context) > 0.9
    assert notes["rank"].network_weight in WEIGHTS
    assert (stage.network is None) == (notes["rank"].network_weight == 0)
    assert (stage.trees is None) == (notes["rank"].network_weight == 1)


def context_with_note(context: TrainContext, notes: dict) -> TrainContext:
    return TrainContext(context.events, context.catalog, batches=context.batches, note=notes.__setitem__)


def test_chosen_weight_has_the_best_ndcg_by_hand(context):
    torch.manual_seed(1)
    features = small_features(("n",))
    network, trees = FeatureMLP([len(features.names), 8]).eval(), stumps(n_tree_features(features))
    batches = [small_catalogue(one) for one in context.batches[:2]]
    weight, factors = chosen_weight(features, network, trees, batches)
    quality = {}
    for one in WEIGHTS:
        quality[one] = 0.0
        for batch in batches:
            score = blended(features, network, trees, batch, one, batches)
            for row, own in enumerate(score.tolist()):
                order = sorted(range(len(own)), key=lambda at, own=own: -own[at])
                targets = {item for item in batch.targets[row].tolist() if item >= 0}
                quality[one] += ndcg_by_hand([int(batch.found.items[row, at]) for at in order], targets)
    assert quality[weight] == pytest.approx(max(quality.values()))
    assert factors.shape == (2,)


def small_catalogue(one):
    """The same requests with items of the small catalogue, each once."""
    items = torch.stack(
        [torch.randperm(40, generator=torch.Generator().manual_seed(row))[:30] for row in range(16)]
    )
    targets = items.masked_fill(one.targets < 0, -1)
    query = type(one.query).of((one.query.history % 40).tolist())
    return type(one)(query, Candidates.of(items, one.found.scores, one.found.columns), targets)


def blended(features, network, trees, batch, weight, batches):
    """Scores of both parts over their standard deviation within requests, weighted."""

    def parts(one):
        inputs = tree_features(features, one.query, one.found)
        with torch.no_grad():
            return network(features(one.query, one.found)), trees(inputs)

    deviations = []
    for part in (0, 1):
        centred = [parts(one)[part] - parts(one)[part].mean(1, keepdim=True) for one in batches]
        deviations.append(float(torch.cat(centred).square().mean().sqrt()))
    own = parts(batch)
    return weight * own[0] / deviations[0] + (1 - weight) * own[1] / deviations[1]


def test_without_lightgbm_the_network_is_trained_alone_and_the_history_says_so(context, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(boosted_ranker, "import_module", missing)
    notes = {}
    stage = QUICK.fit({"name": "rank"}, context_with_note(context, notes))
    assert stage.trees is None
    assert notes["rank"].network_weight == 1
    assert "without boosted trees" in notes["rank"].warnings[0]
    assert "pip install 'shortlist[boosted]'" in notes["rank"].warnings[0]


def test_renewed_ranker_has_the_counts_of_all_events(world, context):
    pytest.importorskip("lightgbm")
    stage = QUICK.fit({"name": "rank"}, context)
    renewed = QUICK.renew(stage, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.features.extras == stage.features.extras


def test_calibrated_scores_are_probabilities(context):
    pytest.importorskip("lightgbm")
    stage = BlendRankerTrainer(epochs=1, hidden=(8,), trees=3, min_leaf_size=2, calibrate="platt").fit(
        {}, context
    )
    one = context.batches[0]
    scores = stage.score(one.query, one.found)
    assert stage.probabilities
    assert bool(((scores > 0) & (scores < 1)).all())
