import numpy as np
import pytest

from shortlist.diagnose.knobs.stage_times import Times
from shortlist.diagnose.knobs.trials import PRESENT, Returned, Setting, apart, frontier, returned, trial
from shortlist.diagnose.sample import panel
from shortlist.grammar import as_pipeline
from shortlist.pipeline import Within
from tests.diagnose.knobs.funnels import K, N, Watch, cases, funnel
from tests.diagnose.test_follow_items import wants
from tests.diagnose.test_offline import Slow
from tests.worlds import N_ITEMS, RandomNominator


def tried(name, late_ms, share):
    """A trial of 128 cases of which this share gets what it wants."""
    hits = (np.arange(2 * N) < share * 2 * N).astype(np.int64)
    found = Returned(hits, hits)
    setting = Setting.of(funnel(Watch()), {("first", "limit"): 8}, name)
    return trial(setting, Times(late_ms, late_ms, 9, ()), found, found, panel(cases(), N), "recall")


def test_what_comes_back_is_counted_case_by_case():
    asked = panel(cases(), N)
    found = returned(funnel(Watch(), limit=16), asked, K)
    assert found.hits.tolist() == found.first.tolist() == [int(u % N < 16) for u in range(2 * N)]


def test_settings_are_called_by_what_they_change():
    pipeline = funnel(Watch())
    assert Setting.of(pipeline, {}).label == PRESENT
    changes = {("first", "limit"): 8, ("pre", "cut"): 5}
    assert Setting.of(pipeline, changes).label == "first % 8, pre % 5"
    assert repr(Setting.of(pipeline, changes).pipeline) == f"first % 8 >> pre % 5 >> rank % {K}"


def test_differences_are_those_of_the_same_users():
    asked = panel(cases(), N)
    a, b = (returned(funnel(Watch(), limit=limit), asked, K) for limit in (32, 16))
    found = apart(a, b, asked, "recall")
    assert found.mean == pytest.approx(0.25)
    assert 0.1 < found.low < 0.25 < found.high < 0.4
    nothing = apart(a, a, asked, "precision_at_1")
    assert (nothing.mean, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


def test_the_frontier_is_the_fastest_first_and_without_ties():
    trials = {
        name: tried(name, ms, share)
        for name, ms, share in [("slow", 9, 0.5), ("fast", 1, 0.25), ("worse", 5, 0.25), ("best", 5, 0.5)]
    }
    assert frontier(trials, "recall") == ["fast", "best"]


def test_a_batch_that_would_be_late_is_counted_all_the_same():
    """A time limit is for single requests: what comes back must not depend on how many are asked at once."""
    asked, scorer = panel(wants(60), N_ITEMS), Slow(name="rank")
    plain, limited = (
        returned(as_pipeline(RandomNominator(name="n0") >> stage), asked, 4)
        for stage in (scorer % 4, Within(scorer % 4, ms=5))
    )
    assert limited.hits.tolist() == plain.hits.tolist()
