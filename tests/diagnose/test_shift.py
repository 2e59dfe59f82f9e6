from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import sample_users
from shortlist.diagnose.scorer_inputs import CandidateRows, ScorerInputs, scorer_inputs
from shortlist.diagnose.shift import Shift, level, shift, shifts, training_candidates
from shortlist.errors import ArtifactError

N = 64
POPULARITY = 2 ** (np.arange(N) // 8)
CATALOG = Catalog(
    Vocabulary.of([f"i{row}" for row in range(N)]),
    pa.table({"category": [f"c{row % 4}" for row in range(N)]}),
)


def random_rows(seed, requests=200, width=20, low=0, high=N, lift=0.0, retrieved=120):
    """Random candidates among items low..high with random scores."""
    rng = np.random.default_rng(seed)
    items = rng.integers(low, high, requests * width)
    scores = rng.normal(size=len(items)) + lift
    relevant = rng.random(len(items)) < 0.05
    request = np.repeat(np.arange(requests), width)
    return CandidateRows(items, scores, rng.random(len(items)), relevant, request, retrieved, 200)


def inputs_of(rows, relevant=(1, 2, 3, 60)):
    return ScorerInputs("rank", rows, np.arange(rows.requests), np.array(relevant), False)


def tensors_of(rows, name="rank"):
    columns = {key: torch.from_numpy(getattr(rows, key)) for key in ("items", "request")}
    columns["target"] = torch.from_numpy(rows.relevant)
    columns |= {key: torch.from_numpy(getattr(rows, key)).float() for key in ("scores", "pool")}
    columns["recall"] = torch.tensor([rows.retrieved, rows.total], dtype=torch.float64)
    return {f"{name}.{key}": value for key, value in columns.items()}


def test_candidates_of_one_distribution_have_no_shift():
    found = shift(inputs_of(random_rows(1)), random_rows(0), POPULARITY, CATALOG)
    assert found.level == "small"
    assert found.auc == pytest.approx(0.5, abs=0.05)
    assert found.tv_lower_bound < 0.05
    assert found.popularity_js < 0.01
    assert found.score_ks < 0.05
    assert found.items_not_in_training == 0 == found.relevant_candidates_not_in_training
    assert not found.few


def test_other_items_at_serving_are_a_large_shift_and_are_counted():
    found = shift(inputs_of(random_rows(1, low=32)), random_rows(0, high=48), POPULARITY, CATALOG)
    assert found.level == "large"
    assert found.auc > 0.8
    assert 0.5 < found.tv_lower_bound <= 1
    assert found.popularity_js > 0.3
    assert found.items_not_in_training == 16  # 48 to 63
    assert (
        found.relevant_candidates_not_in_training == found.relevant_not_in_training == 0.25
    )  # item 60 of four


def test_histograms_hold_the_share_of_candidates_by_item_popularity():
    before, now = random_rows(0, high=16), random_rows(1, low=8, high=24)
    bars = shift(inputs_of(now), before, POPULARITY, CATALOG).histogram
    assert [bar.events for bar in bars] == ["1", "2–3", "4–7"]
    for bar, (low, high) in zip(bars, ((1, 1), (2, 3), (4, 7)), strict=True):
        for side, sample in (("training", before), ("serving", now)):
            share = sum(low <= POPULARITY[item] <= high for item in sample.items) / len(sample.items)
            assert getattr(bar, side) == pytest.approx(share)


def test_classifier_bound_stays_below_the_total_variation():
    # Items 0..47 uniformly against 32..63 uniformly: total variation is 1 - 16 / 48 = 2 / 3.
    found = shift(
        inputs_of(random_rows(1, low=32, requests=800)),
        random_rows(0, high=48, requests=800),
        POPULARITY,
        CATALOG,
    )
    assert found.tv_lower_bound <= 2 / 3 + 0.03


def test_higher_scores_alone_are_a_noticeable_shift():
    found = shift(inputs_of(random_rows(1, lift=0.6)), random_rows(0), POPULARITY, CATALOG)
    assert found.score_ks > 0.2
    assert found.popularity_js < 0.01
    assert found.level == "noticeable"


def test_total_variation_is_1_less_recall():
    found = shift(inputs_of(random_rows(1, retrieved=40)), random_rows(0, retrieved=120), POPULARITY, CATALOG)
    assert (found.recall_training, found.recall_serving) == (0.6, 0.2)
    assert (found.tv, found.tv_doubled, found.tv_training) == (0.8, 1.6, 0.4)  # 2 (1 - .2) = 1.6
    assert found.level == "large"


def test_level_follows_from_auc_recall_and_scores():
    assert level(0.5, 0.5, 0.5, 0.0) == "small"
    assert (
        level(0.65, 0.5, 0.5, 0.0) == level(0.5, 0.65, 0.5, 0.0) == level(0.5, None, 0.5, 0.2) == "noticeable"
    )
    assert level(0.8, 0.5, 0.5, 0.0) == level(0.5, 0.7, 0.4, 0.0) == "large"


def test_training_candidates_are_read_from_the_tensors_of_a_bundle():
    rows = random_rows(0)
    read = training_candidates(tensors_of(rows))["rank"]
    assert np.array_equal(read.items, rows.items)
    assert np.array_equal(read.request, rows.request)
    assert read.scores == pytest.approx(rows.scores, abs=1e-6)
    assert (read.retrieved, read.total, read.requests) == (120, 200, 200)
    assert training_candidates({}) == {}


def test_damaged_training_candidates_are_refused():
    tensors = tensors_of(random_rows(0))
    del tensors["rank.pool"]
    with pytest.raises(ArtifactError, match="that of 'rank' lacks pool"):
        training_candidates(tensors)
    tensors = tensors_of(random_rows(0)) | {"rank.pool": torch.zeros(3)}
    with pytest.raises(ArtifactError, match="columns of one length"):
        training_candidates(tensors)


def test_scorers_without_training_candidates_say_why():
    nothing = replace(random_rows(0), items=np.empty(0, int)).where(np.empty(0, int))
    inputs = {"a": inputs_of(random_rows(1)), "b": inputs_of(random_rows(1))}
    found = shifts(inputs, {"b": nothing}, POPULARITY, CATALOG)
    assert all(isinstance(one, NotMeasured) for one in found.values())
    assert "stores no sample" in found["a"].why
    assert "no candidates in training" in found["b"].why


def test_trained_pipeline_has_no_shift_against_itself(world, recommender):
    split = world.split()
    serving = scorer_inputs(recommender.pipeline, sample_users(split.test, len(world.items)))
    before = scorer_inputs(recommender.pipeline, sample_users(split.valid, len(world.items)))
    training = {name: one.rows for name, one in before.items()}
    found = shifts(serving, training, split.train.popularity, world.catalog)
    assert set(found) == {"prerank", "rank"}
    assert isinstance(found["rank"], Shift)
    assert found["rank"].auc < 0.65
    assert found["rank"].level in ("small", "noticeable")
