from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.artifact.store import Lineage, save
from shortlist.data import Catalog, Vocabulary
from shortlist.diagnose.sample import panel
from shortlist.diagnose.scorer_inputs import Sample, Served, served
from shortlist.diagnose.shift import RECORD, level, rehearsal, rehearsals, shift, shifts
from shortlist.errors import ArtifactError

N = 64
POPULARITY = 2 ** (np.arange(N) // 8)
CATALOG = Catalog(
    Vocabulary.of([f"i{row}" for row in range(N)]),
    pa.table({"category": [f"c{row % 4}" for row in range(N)]}),
)


def drawn(seed, requests=200, width=20, low=0, high=N, lift=0.0, found=120):
    """Candidates by chance among items low..high, scores by chance."""
    rng = np.random.default_rng(seed)
    items = rng.integers(low, high, requests * width)
    scores = rng.normal(size=len(items)) + lift
    wanted = rng.random(len(items)) < 0.05
    request = np.repeat(np.arange(requests), width)
    return Sample(items, scores, rng.random(len(items)), wanted, request, found, 200)


def given(sample, truth=(1, 2, 3, 60)):
    return Served("rank", sample, np.arange(sample.requests), np.array(truth), False)


def recorded(sample, name="rank"):
    columns = {key: torch.from_numpy(getattr(sample, key)) for key in ("items", "wanted", "request")}
    columns |= {key: torch.from_numpy(getattr(sample, key)).float() for key in ("scores", "pool")}
    columns["recall"] = torch.tensor([sample.found, sample.sought], dtype=torch.float64)
    return {f"{name}.{key}": value for key, value in columns.items()}


def test_candidates_of_the_same_kind_show_no_shift():
    found = shift(given(drawn(1)), drawn(0), POPULARITY, CATALOG)
    assert found.level == "small"
    assert found.auc == pytest.approx(0.5, abs=0.05)
    assert found.tv_lower_bound < 0.05
    assert found.popularity_js < 0.01
    assert found.score_ks < 0.05
    assert found.items_never_trained == 0 == found.never_trained_wanted
    assert not found.few


def test_other_items_at_serving_are_a_large_shift_and_those_never_seen_are_counted():
    found = shift(given(drawn(1, low=32)), drawn(0, high=48), POPULARITY, CATALOG)
    assert found.level == "large"
    assert found.auc > 0.8
    assert 0.5 < found.tv_lower_bound <= 1
    assert found.popularity_js > 0.3
    assert found.items_never_trained == 16  # 48 to 63
    assert found.never_trained_wanted == found.wanted_never_trained == 0.25  # item 60 of four


def test_histograms_hold_the_share_of_candidates_by_the_events_of_their_items():
    before, now = drawn(0, high=16), drawn(1, low=8, high=24)
    told = shift(given(now), before, POPULARITY, CATALOG).as_dict()["histogram"]
    assert [bar["events"] for bar in told] == ["1", "2–3", "4–7"]
    for bar, (low, high) in zip(told, ((1, 1), (2, 3), (4, 7)), strict=True):
        for side, sample in (("training", before), ("serving", now)):
            share = sum(low <= POPULARITY[item] <= high for item in sample.items) / len(sample.items)
            assert bar[side] == pytest.approx(share)


def test_a_bound_from_a_classifier_stays_below_the_true_distance():
    # Items 0..47 uniformly against 32..63 uniformly: total variation is 1 - 16 / 48 = 2 / 3.
    found = shift(given(drawn(1, low=32, requests=800)), drawn(0, high=48, requests=800), POPULARITY, CATALOG)
    assert found.tv_lower_bound <= 2 / 3 + 0.03


def test_higher_scores_alone_are_noticed():
    found = shift(given(drawn(1, lift=0.6)), drawn(0), POPULARITY, CATALOG)
    assert found.score_ks > 0.2
    assert found.popularity_js < 0.01
    assert found.level == "noticeable"


def test_total_variation_is_what_recall_leaves():
    found = shift(given(drawn(1, found=40)), drawn(0, found=120), POPULARITY, CATALOG)
    assert (found.recall_training, found.recall_serving) == (0.6, 0.2)
    assert (found.tv, found.tv_doubled, found.tv_training) == (0.8, 1.6, 0.4)  # 2 (1 - .2) = 1.6
    assert found.level == "large"


def test_the_level_follows_its_rules():
    assert level(0.5, 0.5, 0.5, 0.0) == "small"
    assert (
        level(0.65, 0.5, 0.5, 0.0) == level(0.5, 0.65, 0.5, 0.0) == level(0.5, None, 0.5, 0.2) == "noticeable"
    )
    assert level(0.8, 0.5, 0.5, 0.0) == level(0.5, 0.7, 0.4, 0.0) == "large"


def test_a_record_comes_back_from_a_bundle(tmp_path):
    sample = drawn(0)
    artifact = save(tmp_path / "b", "recommender", {RECORD: recorded(sample)}, Lineage())
    back = rehearsals(artifact)["rank"]
    assert np.array_equal(back.items, sample.items)
    assert np.array_equal(back.request, sample.request)
    assert back.scores == pytest.approx(sample.scores, abs=1e-6)
    assert (back.found, back.sought, back.requests) == (120, 200, 200)
    assert np.array_equal(rehearsals(recorded(sample))["rank"].items, sample.items)
    bare = save(tmp_path / "c", "recommender", {"about.txt": "nothing"}, Lineage())
    assert rehearsals(bare) == {}


def test_a_damaged_record_is_refused_by_name():
    tensors = recorded(drawn(0))
    del tensors["rank.pool"]
    with pytest.raises(ArtifactError, match="the record of 'rank' lacks pool"):
        rehearsal("rank", tensors)
    tensors = recorded(drawn(0)) | {"rank.pool": torch.zeros(3)}
    with pytest.raises(ArtifactError, match="columns of one length"):
        rehearsal("rank", tensors)


def test_scorers_without_a_record_or_candidates_say_why():
    nothing = replace(drawn(0), items=np.empty(0, int)).where(np.empty(0, int))
    told = shifts({"a": given(drawn(1)), "b": given(drawn(1))}, {"b": nothing}, POPULARITY, CATALOG)
    assert "no record" in told["a"]["why"]
    assert "no candidates in training" in told["b"]["why"]


def test_a_trained_pipeline_beside_itself_has_no_shift(world, recommender):
    split = world.split()
    at_serving = served(recommender.pipeline, panel(split.test, len(world.items)))
    before = served(recommender.pipeline, panel(split.valid, len(world.items)))
    record = {name: one.sample for name, one in before.items()}
    told = shifts(at_serving, record, split.train.popularity, world.catalog)
    assert set(told) == {"prerank", "rank"}
    assert told["rank"]["auc"] < 0.65
    assert told["rank"]["level"] in ("small", "noticeable")
