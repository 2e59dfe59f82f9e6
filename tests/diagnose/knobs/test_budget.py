import json

import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.diagnose.knobs.budget import SizeChange, choose, parse_budget, search_budget
from shortlist.diagnose.knobs.trials import CURRENT, Predicted
from shortlist.diagnose.sample import sample_users
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import as_pipeline, leaves
from shortlist.pipeline import load_recommender
from shortlist.pipeline.expression import parse
from tests.diagnose.knobs.funnels import K, N, funnel, held_out
from tests.evaluate.test_latency import FakeClock
from tests.worlds import RandomScorer, listed


def searched(budget_ms, **options):
    clock = FakeClock()
    return search_budget(funnel(clock), held_out(), budget_ms, N, clock=clock, seconds=1e6, **options)


def latency(limit, cut):
    return 0.02 * limit + 0.5 * min(limit, cut)


def test_latency_of_settings_and_stages_follows_from_their_sizes():
    found = searched(100.0)
    assert len(found.trials) > 10
    for one in found.trials.values():
        sizes = {knob: value for (_, knob), value in one.setting.changes.items()}
        limit, cut = sizes.get("limit", 16), sizes.get("cut", 16)
        assert one.times.p95_ms == pytest.approx(latency(limit, cut)) == one.times.median_ms
        assert one.recall.mean == pytest.approx(limit / N)
        stages = {stage.name: stage.p95_ms for stage in one.times.stages}
        assert stages == pytest.approx(
            {"pool": 0.01 * limit, "pre": 0.01 * limit, "rank": 0.5 * min(limit, cut)}
        )


def test_good_changes_are_combined_and_measured():
    # 64 nominated and 4 ranked take 3.28 ms; 64 nominated alone 9.28 ms; ranking 4 of 16 returns nothing more.
    found = searched(4.0)
    assert found.best == found.advised == "first % 64, pre % 4"
    best = found.trials[found.best]
    assert (best.times.p95_ms, best.recall.mean) == (pytest.approx(3.28), 1.0)
    assert best.setting.predicted == Predicted(pytest.approx(3.28), pytest.approx(1.0))
    assert found.trials[CURRENT].times.p95_ms == pytest.approx(8.32)
    assert found.status == "some"


def test_predicted_sums_are_reported_beside_measurements():
    # Each change saves about 6 of 8.32 ms; together they cannot save 12.
    quarter = searched(4.0).trials["all sizes x 0.25"]
    assert quarter.setting.predicted.p95_ms == 0.0
    assert quarter.times.p95_ms == pytest.approx(latency(4, 4))


def test_faster_setting_with_equal_recall_is_advised():
    found = searched(2.5)
    assert found.best == found.advised == "pre % 4"  # as much as 16, in 2.32 ms
    assert found.trials["pre % 4"].gain.mean == 0.0


def test_no_setting_fits_a_tiny_budget():
    found = searched(0.5)
    assert (found.status, found.best, found.advised) == ("none", None, None)
    report = found.report()
    assert report.setting(report.fastest).p95_ms == min(one.p95_ms for one in report.settings)
    assert not any(one.fits for one in report.settings)


def test_all_settings_fit_a_large_budget():
    found = searched(1e4)
    assert found.status == "all"
    assert found.trials[found.best].recall.mean == 1.0
    # Of all with a recall of 1 the one that ranks fewest candidates is the fastest.
    assert found.trials[found.advised].times.p95_ms == min(
        one.times.p95_ms for one in found.trials.values() if one.recall.mean == 1.0
    )


def test_frontier_holds_undominated_settings():
    found = searched(4.0)
    points = {name: (one.times.p95_ms, one.recall.mean) for name, one in found.trials.items()}
    beaten = {
        name
        for name, (ms, recall) in points.items()
        if any(a <= ms and b >= recall and (a, b) != (ms, recall) for a, b in points.values())
    }
    assert set(found.frontier).isdisjoint(beaten)
    assert {points[name] for name in found.frontier} == {
        points[name] for name in points if name not in beaten
    }


def test_faster_setting_is_advised_unless_it_loses_much():
    found = searched(100.0)
    sample, trials = sample_users(held_out(), N), found.trials
    best = next(one for one in trials.values() if one.recall.mean == 1.0)
    one_worse, much_worse = (_less(best, count, sample) for count in (1, 40))
    trials_left = {"best": best, "one": one_worse, "much": much_worse}
    assert choose(trials_left, 1e4, "recall", sample) == (best.setting.label, "a little less")
    del trials_left["one"]
    assert choose(trials_left, 1e4, "recall", sample) == (best.setting.label, best.setting.label)


def test_noise_in_p95_does_not_make_a_setting_faster():
    found = searched(100.0)
    present, sample = found.trials[CURRENT], sample_users(held_out(), N)
    setting = _changed(present.setting, label="lucky", changes={("pre", "cut"): 15})
    lucky = _changed(present, setting=setting, times=_changed(present.times, p95_ms=present.times.p95_ms / 2))
    assert choose({CURRENT: present, "lucky": lucky}, 100.0, "recall", sample) == ("lucky", CURRENT)


def test_busy_machine_is_detected():
    found = searched(100.0)
    assert not found.busy
    times = found.trials[CURRENT].times
    for changes in (
        {"p95_ms": times.p95_ms * 3},
        {"median_ms": times.median_ms * 2, "p95_ms": times.p95_ms * 2},
    ):
        waited = _changed(found.trials[CURRENT], times=_changed(times, **changes))
        assert _changed(found, trials={**found.trials, CURRENT: waited}).busy


def _less(best, count, sample):
    """The same trial, twice as fast, that misses `count` relevant items."""
    hits = best.hits.hits.copy()
    hits[:count] = 0
    stages = tuple(_changed(stage, median_ms=stage.median_ms / 2) for stage in best.times.stages)
    times = _changed(best.times, p95_ms=best.times.p95_ms / 2, stages=stages)
    setting = _changed(best.setting, label="a little less" if count == 1 else "much less")
    return _changed(
        best,
        setting=setting,
        times=times,
        hits=_changed(best.hits, hits=hits),
        recall=sample.recall(hits),
    )


def _changed(thing, **fields):
    return type(thing)(**{**vars(thing), **fields})


def test_without_intervals_only_equal_recall_goes_to_the_faster_setting():
    clock = FakeClock()
    found = search_budget(funnel(clock), held_out(20), 100.0, N, clock=clock, seconds=1e6)
    assert found.users == 20
    assert found.trials[found.advised].recall.mean == found.trials[found.best].recall.mean
    assert found.trials[found.advised].gain.low is None


def test_metric_can_be_precision_at_1():
    found = searched(4.0, metric="precision_at_1")
    assert found.trials[found.best].precision_at_1.mean == 1.0
    with pytest.raises(ConfigError, match="expected one of recall, precision_at_1, got 'fame'"):
        searched(4.0, metric="fame")


def test_settings_without_time_are_counted():
    clock = FakeClock()
    found = search_budget(funnel(clock), held_out(), 4.0, N, clock=clock, seconds=1.0)
    assert found.left_out > 0
    assert clock.now < 5.0
    assert CURRENT in found.trials
    assert found.report().left_out == found.left_out


def test_report_is_json_and_its_expression_can_be_parsed():
    report = searched(4.0).report()
    json.dumps(as_json(report), allow_nan=False)
    chosen = report.setting(report.advised)
    assert chosen.changes == (SizeChange("first", "limit", 16, 64), SizeChange("pre", "cut", 16, 4))
    assert chosen.toml == f'pipeline = "first % 64 >> pre % 4 >> rank % {K}"'
    stages = {stage.title: stage for stage in leaves(funnel(FakeClock()))}
    assert repr(parse(chosen.pipeline, stages)) == chosen.pipeline


def test_tree_is_tried_with_other_beams(world, tree_bundle):
    clock = FakeClock()
    pipeline = load_recommender(tree_bundle).pipeline
    found = search_budget(pipeline, world.split().test, 50.0, len(world.items), requests=2, clock=clock)
    assert {"tree beam 30", "tree beam 60"} <= set(found.trials)
    assert found.advised == CURRENT or found.trials[found.advised].gain.mean >= -0.01


def test_pipeline_without_a_cut_has_slates_of_one_size():
    clock = FakeClock()
    pipeline = as_pipeline(listed("a", range(40), limit=20)) >> RandomScorer(name="rank")
    found = search_budget(pipeline, held_out(40), 10.0, N, clock=clock, requests=2)
    assert found.k == 10
    assert all(one.hits.hits.shape == (40,) for one in found.trials.values())
    assert repr(found.trials[CURRENT].setting.pipeline) == "a % 20 >> rank % 10"


@pytest.mark.parametrize(
    ("text", "ms"), [("30ms", 30.0), ("0.03s", 30.0), ("30", 30.0), (" 1.5 ms ", 1.5), (".5s", 500.0)]
)
def test_budgets_are_read_in_milliseconds_or_seconds(text, ms):
    assert parse_budget(text) == pytest.approx(ms)


@pytest.mark.parametrize("text", ["", "fast", "-3ms", "0", "30 min", "1e3ms", "nan", "inf"])
def test_other_budgets_are_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"expected a time above 0 such as 30ms or 0\.03s"):
        parse_budget(text)


def test_budget_must_be_positive_and_users_must_exist():
    with pytest.raises(ConfigError, match="expected milliseconds above 0"):
        searched(0.0)
    with pytest.raises(DataError, match="expected held-out requests"):
        search_budget(funnel(FakeClock()), held_out(0), 3.0, N)


def test_number_of_threads_is_restored():
    before = torch.get_num_threads()
    searched(4.0, requests=2)
    assert torch.get_num_threads() == before
