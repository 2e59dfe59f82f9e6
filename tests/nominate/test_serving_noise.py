"""Noise on user vectors in a nominator: another set of items, the same scores, and their probabilities in the log."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Query, Vocabulary
from shortlist.errors import ConfigError
from shortlist.feedback import FullStageLogger, LogReader, concat
from shortlist.feedback.write.from_trace import NOISE, from_trace
from shortlist.feedback.write.policy import request_meta
from shortlist.feedback.write.sampling import EVERYTHING
from shortlist.grammar import as_pipeline
from shortlist.models.collaborative.ease import EASE
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline import Optional, run
from shortlist.stages import TowerScorer

ITEMS = 400


def towers():
    torch.manual_seed(0)
    return TwoTower(TwoTowerConfig(ITEMS, 10, 3, 8, 16)).with_categories(torch.arange(ITEMS) % 3).eval()


def query(seeds=range(6)):
    return Query.of([[1, 2, 3]] * len(seeds), seeds=list(seeds))


def nominator(noise, **more):
    return ModelNominator(towers(), serving_noise=noise, name="towers", limit=20, **more)


def found(noise, seeds=range(6), **more):
    return nominator(noise, **more).nominate(query(seeds))


def test_no_noise_gives_the_same_items_as_before_and_no_propensity():
    """Spec test 35."""
    plain = ModelNominator(towers(), name="towers", limit=20).nominate(query())
    assert torch.equal(found(0.0).items, plain.items)
    assert "propensity" not in found(0.0).columns


def test_noise_depends_on_the_seed_of_the_request_alone():
    noisy = found(0.5)
    assert len({tuple(sorted(row)) for row in noisy.items.tolist()}) > 1
    assert torch.equal(noisy.items[3:4], found(0.5, [3]).items)


def test_scores_are_those_without_noise_best_first():
    noisy, model = found(0.5), towers()
    expected = (model.users(query().history) @ model.vectors().T).gather(1, noisy.items)
    assert torch.allclose(noisy.scores, expected, atol=1e-5)
    assert bool((noisy.scores[:, :-1] >= noisy.scores[:, 1:]).all())


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_propensity_is_the_share_of_seeds_that_nominate_the_item(exclude_seen):
    noisy = found(0.3, range(1000), exclude_seen=exclude_seen)
    share = torch.bincount(noisy.items.flatten(), minlength=ITEMS) / 1000
    error = noisy.columns["propensity"] - share[noisy.items]
    assert error.abs().mean().item() < 0.05
    assert abs(error.mean().item()) < 0.02
    if exclude_seen:
        assert not bool(torch.isin(noisy.items, torch.tensor([1, 2, 3])).any())


def test_catalogue_that_fits_the_limit_is_certain():
    everything = replace(nominator(0.5), limit=2 * ITEMS).nominate(query())
    assert torch.equal(everything.columns["propensity"][everything.valid], torch.ones(6 * ITEMS))


def test_model_without_vectors_refuses_noise():
    with pytest.raises(ConfigError, match="serving_noise needs a model whose scores are products of vectors"):
        ModelNominator(EASE(EASE.Config(4)), serving_noise=0.1, limit=3)


def pipeline_of(noise):
    popular = Popular(torch.arange(ITEMS), torch.linspace(1, 0.1, ITEMS), name="popular", limit=15)
    pool = Optional(nominator(noise)) + popular
    return as_pipeline(pool >> TowerScorer(towers(), name="rank") % 5)


def test_log_has_noise_seed_and_propensity(tmp_path):
    pipeline = pipeline_of(0.4)
    trace = run(pipeline, query()).trace
    meta = request_meta(pipeline, "v1", range(6), [10**12] * 6)
    with FullStageLogger(tmp_path, Vocabulary.of(range(ITEMS)), sampling=EVERYTHING) as log:
        log.offer(trace, meta)
    record = concat(list(LogReader(tmp_path).requests()))
    assert record.funnels[0].noise == (0.4, 0.0)
    assert (record.exploration_flags == NOISE).all()
    assert record.seed.tolist() == list(range(6))
    both, only = record.channel_mask == 3, record.channel_mask == 1
    assert (record.pool_propensity[both] == 1).all()  # the other nominator is not random
    assert np.isnan(record.pool_propensity[record.channel_mask == 2]).all()
    known = record.pool_propensity[only]
    assert ((known > 0) & (known <= 1)).all()
    assert np.isnan(record.slate_propensity).all()
    assert np.array_equal(np.isnan(record.nominator_propensity[:, 0]), record.channel_mask == 2)
    assert np.allclose(record.nominator_propensity[only, 0], known)
    assert np.isnan(record.nominator_propensity[:, 1]).all()  # not random
    expected = from_trace(trace, meta).pool_propensity
    assert np.array_equal(np.sort(expected), np.sort(record.pool_propensity), equal_nan=True)


def test_pipeline_without_noise_logs_no_propensity():
    pipeline = pipeline_of(0.0)
    record = from_trace(run(pipeline, query()).trace, request_meta(pipeline, "", range(6), [0] * 6))
    assert record.funnels[0].noise == ()
    assert (record.exploration_flags == 0).all()
    assert np.isnan(record.pool_propensity).all()
    assert (record.policy_version == 0).all()
