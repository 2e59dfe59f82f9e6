import numpy as np
import pytest

from shortlist.diagnose.knobs.stage_times import Times
from shortlist.diagnose.knobs.trials import (
    CURRENT,
    Hits,
    SizeSetting,
    count_slates,
    difference,
    frontier,
    trial,
)
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Within
from tests.diagnose.knobs.funnels import K, N, funnel, held_out
from tests.diagnose.test_follow_items import random_requests
from tests.evaluate.test_latency import FakeClock
from tests.pipeline.test_offline import Slow
from tests.worlds import N_ITEMS, RandomNominator


def tried(name, p95_ms, share):
    """A trial of 128 requests of which this share has a hit."""
    hits = (np.arange(2 * N) < share * 2 * N).astype(np.int64)
    found = Hits(hits, hits)
    setting = SizeSetting.of(funnel(FakeClock()), {("first", "limit"): 8}, name)
    return trial(setting, Times(p95_ms, p95_ms, 9, ()), found, found, sample_users(held_out(), N), "recall")


def test_hits_are_counted_per_request():
    sample = sample_users(held_out(), N)
    found = count_slates(funnel(FakeClock(), limit=16), sample, K)
    assert found.hits.tolist() == found.first.tolist() == [int(u % N < 16) for u in range(2 * N)]


def test_settings_are_labelled_by_their_changes():
    pipeline = funnel(FakeClock())
    assert SizeSetting.of(pipeline, {}).label == CURRENT
    changes = {("first", "limit"): 8, ("pre", "cut"): 5}
    assert SizeSetting.of(pipeline, changes).label == "first % 8, pre % 5"
    assert repr(SizeSetting.of(pipeline, changes).pipeline) == f"first % 8 >> pre % 5 >> rank % {K}"


def test_differences_are_paired_by_user():
    sample = sample_users(held_out(), N)
    a, b = (count_slates(funnel(FakeClock(), limit=limit), sample, K) for limit in (32, 16))
    found = difference(a, b, sample, "recall")
    assert found.mean == pytest.approx(0.25)
    assert 0.1 < found.low < 0.25 < found.high < 0.4
    nothing = difference(a, a, sample, "precision_at_1")
    assert (nothing.mean, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


def test_frontier_is_fastest_first_and_without_ties():
    trials = {
        name: tried(name, ms, share)
        for name, ms, share in [("slow", 9, 0.5), ("fast", 1, 0.25), ("worse", 5, 0.25), ("best", 5, 0.5)]
    }
    assert frontier(trials, "recall") == ["fast", "best"]


def test_time_limits_do_not_apply_to_batches():
    """A time limit is for single requests: hits must not depend on the batch size."""
    sample, scorer = sample_users(random_requests(60), N_ITEMS), Slow(name="rank")
    plain, limited = (
        count_slates(as_pipeline(RandomNominator(name="n0") >> stage), sample, 4)
        for stage in (scorer % 4, Within(scorer % 4, ms=5))
    )
    assert limited.hits.tolist() == plain.hits.tolist()
