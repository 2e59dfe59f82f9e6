"""The DIN ranker learns which candidates fit a history."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.nominate import ModelNominator
from shortlist.stages import Seen
from shortlist.testing.stages import check_stage
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.din_ranker import DINRankerTrainer, item_vectors
from tests.worlds import towers

QUICK = DINRankerTrainer(
    epochs=12,
    learning_rate=5e-3,
    n_negatives=10,
    positives_per_request=4,
    width=8,
    attention=(8,),
    hidden=(16,),
    max_history=8,
    device="cpu",
)


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    """Requests whose targets are in the half of the catalogue that the history comes from."""
    generator = torch.Generator().manual_seed(0)
    half, batches = len(world.items) // 2, []
    for _ in range(10):
        side = torch.randint(0, 2, (32, 1), generator=generator) * half
        history = torch.randint(0, half, (32, 6), generator=generator) + side
        items = torch.stack([torch.randperm(2 * half, generator=generator)[:30] for _ in range(32)])
        ranks = torch.arange(30.0).expand(32, 30)
        found = Candidates.of(items, torch.zeros(32, 30), {"n.rank": ranks, "n.score": -ranks})
        targets = items.masked_fill((items >= half) != (side > 0), -1)
        batches.append(RequestBatch(Query.of(history.tolist()), found, targets))
    return TrainContext(world.split().train, world.catalog, batches=tuple(batches))


def share_right(stage, context: TrainContext) -> float:
    """How often a target ranks first, in the last batch."""
    one = context.batches[-1]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    return float(one.is_target.gather(1, best).float().mean())


@pytest.mark.parametrize("mode", ["harmonised", "original"])
def test_ranker_learns_which_half_a_history_comes_from(context, mode):
    stage = replace(QUICK, mode=mode).fit({"name": "rank"}, context)
    assert share_right(stage, context) > 0.9
    assert not stage.probabilities
    check_stage(stage, len(context.catalog))


def test_calibrated_scores_are_probabilities(context):
    stage = replace(QUICK, epochs=2, calibrate="platt").fit({"name": "rank"}, context)
    one = context.batches[4]  # a validation batch
    probability = stage.score(one.query, one.found)
    assert stage.probabilities
    assert float(probability.mean()) == pytest.approx(float(one.is_target.float().mean()), abs=0.1)


def test_same_seed_gives_the_same_weights(context):
    short = replace(QUICK, epochs=1)
    one, two = (short.fit({}, replace(context, seed=seed)).tensors() for seed in (3, 3))
    other = short.fit({}, replace(context, seed=4)).tensors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["model.items.weight"], other["model.items.weight"])


def test_unknown_choices_are_refused():
    with pytest.raises(ConfigError, match="inputs must be one of din3, din4, got 'din5'"):
        DINRankerTrainer(inputs="din5")
    with pytest.raises(ConfigError, match="calibrate must be one of"):
        DINRankerTrainer(calibrate="maybe")


def test_item_embeddings_can_start_from_a_nominator(context):
    count = len(context.catalog)
    nearest = ModelNominator(towers(n_items=count, width=6), name="towers")
    torch.manual_seed(0)
    mf = ModelNominator(MF(MFConfig(count, n_users=3, width=5)), name="mf")
    started = replace(context, fitted={"towers": nearest, "mf": mf, "seen": Seen()})
    for start, width in (("towers", 6), ("mf", 5)):
        model = replace(QUICK, start=start).initial(started, "rank")
        vectors = item_vectors(started, start, "rank")
        assert model.config.width == width
        assert torch.cosine_similarity(model.items.weight[:-1], vectors).min() > 0.999
        assert model.items.weight[:-1].detach().pow(2).mean().item() == pytest.approx(1 / width, rel=1e-3)
        assert bool((model.items.weight[-1] == 0).all())
    stage = replace(QUICK, start="towers", epochs=1).fit({"name": "rank"}, started)
    check_stage(stage, count)
    for unknown in ("seen", "nobody"):
        with pytest.raises(
            ConfigError, match=f"start must name a nominator with item vectors, got '{unknown}'"
        ):
            replace(QUICK, start=unknown).fit({"name": "rank"}, started)
