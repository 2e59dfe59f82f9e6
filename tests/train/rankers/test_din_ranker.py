"""The DIN ranker learns what histories say of candidates."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.nominate import ModelNominator, Nearest
from shortlist.stages import Seen
from shortlist.testing.stages import check_stage
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.din_ranker import DINRankerTrainer, known_vectors
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
def rehearsed(world) -> TrainContext:
    """Requests of users who want items of the half of the catalogue that their history comes from."""
    generator = torch.Generator().manual_seed(0)
    half, rounds = len(world.items) // 2, []
    for _ in range(10):
        side = torch.randint(0, 2, (32, 1), generator=generator) * half
        history = torch.randint(0, half, (32, 6), generator=generator) + side
        items = torch.stack([torch.randperm(2 * half, generator=generator)[:30] for _ in range(32)])
        ranks = torch.arange(30.0).expand(32, 30)
        found = Candidates.of(items, torch.zeros(32, 30), {"n.rank": ranks, "n.score": -ranks})
        truth = items.masked_fill((items >= half) != (side > 0), -1)
        rounds.append(RequestBatch(Query.of(history.tolist()), found, truth))
    return TrainContext(world.split().train, world.catalog, rounds=tuple(rounds))


def share_right(stage, context: TrainContext) -> float:
    """How often a wanted candidate of the last round stands first."""
    one = context.rounds[-1]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    return float(one.wanted.gather(1, best).float().mean())


@pytest.mark.parametrize("mode", ["harmonised", "original"])
def test_it_learns_which_side_a_history_is_on(rehearsed, mode):
    stage = replace(QUICK, mode=mode).fit({"name": "rank"}, rehearsed)
    assert share_right(stage, rehearsed) > 0.9
    assert not stage.probabilities
    check_stage(stage, len(rehearsed.catalog))


def test_it_tells_probabilities_on_request(rehearsed):
    stage = replace(QUICK, epochs=2, calibrate="platt").fit({"name": "rank"}, rehearsed)
    one = rehearsed.rounds[4]  # not learned from
    chance = stage.score(one.query, one.found)
    assert stage.probabilities
    assert float(chance.mean()) == pytest.approx(float(one.wanted.float().mean()), abs=0.1)


def test_the_seed_decides(rehearsed):
    short = replace(QUICK, epochs=1)
    one, two = (short.fit({}, replace(rehearsed, seed=seed)).tensors() for seed in (3, 3))
    other = short.fit({}, replace(rehearsed, seed=4)).tensors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["model.items.weight"], other["model.items.weight"])


def test_words_that_mean_nothing_are_refused():
    with pytest.raises(ConfigError, match="inputs must be one of din3, din4, got 'din5'"):
        DINRankerTrainer(inputs="din5")
    with pytest.raises(ConfigError, match="calibrate must be one of"):
        DINRankerTrainer(calibrate="maybe")


def test_items_can_begin_where_a_nominator_has_them(rehearsed):
    count = len(rehearsed.catalog)
    nearest = Nearest(towers(n_items=count, width=6), name="towers")
    torch.manual_seed(0)
    mf = ModelNominator(MF(MFConfig(count, n_users=3, width=5)), name="mf")
    context = replace(rehearsed, fitted={"towers": nearest, "mf": mf, "seen": Seen()})
    for start, width in (("towers", 6), ("mf", 5)):
        model = replace(QUICK, start=start)._fresh(context, "rank")
        begun = known_vectors(context, start, "rank")
        assert model.config.width == width
        assert torch.cosine_similarity(model.items.weight[:-1], begun).min() > 0.999
        assert model.items.weight[:-1].detach().pow(2).mean().item() == pytest.approx(1 / width, rel=1e-3)
        assert bool((model.items.weight[-1] == 0).all())
    stage = replace(QUICK, start="towers", epochs=1).fit({"name": "rank"}, context)
    check_stage(stage, count)
    for stranger in ("seen", "nobody"):
        with pytest.raises(ConfigError, match=f"start must name a nominator with vectors .* '{stranger}'"):
            replace(QUICK, start=stranger).fit({"name": "rank"}, context)
