import json

import pytest
import torch

from shortlist.diagnose.knobs.budget import advise, choose, parse_budget
from shortlist.diagnose.knobs.trials import PRESENT
from shortlist.diagnose.sample import panel
from shortlist.errors import ConfigError, DataError
from shortlist.grammar import as_pipeline
from shortlist.pipeline import load_recommender
from shortlist.pipeline.expression import parse
from shortlist.pipeline.recipe import leaves
from tests.diagnose.knobs.funnels import K, N, Watch, cases, funnel
from tests.worlds import RandomScorer, listed


def advice(budget_ms, **options):
    watch = Watch()
    return advise(funnel(watch), cases(), budget_ms, N, clock=watch, seconds=1e6, **options)


def price(limit, cut):
    return 0.02 * limit + 0.5 * min(limit, cut)


def test_the_time_of_every_setting_and_stage_is_what_its_sizes_cost():
    found = advice(100.0)
    assert len(found.trials) > 10
    for one in found.trials.values():
        sizes = {what: value for (_, what), value in one.setting.changes.items()}
        limit, cut = sizes.get("limit", 16), sizes.get("cut", 16)
        assert one.times.p95_ms == pytest.approx(price(limit, cut)) == one.times.median_ms
        assert one.recall.mean == pytest.approx(limit / N)
        stages = {stage.name: stage.p95_ms for stage in one.times.stages}
        assert stages == pytest.approx(
            {"pool": 0.01 * limit, "pre": 0.01 * limit, "rank": 0.5 * min(limit, cut)}
        )


def test_changes_that_are_good_together_are_put_together_and_really_measured():
    # 64 named and 4 ranked takes 3.28 ms; 64 named alone 9.28 ms, and ranking 4 of 16 returns nothing more.
    found = advice(4.0)
    assert found.best == found.advised == "first % 64, pre % 4"
    best = found.trials[found.best]
    assert (best.times.p95_ms, best.recall.mean) == (pytest.approx(3.28), 1.0)
    assert best.setting.predicted == (pytest.approx(3.28), pytest.approx(1.0))
    assert found.trials[PRESENT].times.p95_ms == pytest.approx(8.32)
    assert found.status == "some"


def test_sums_are_told_beside_what_is_measured_and_not_believed():
    # Either saves some 6 of 8.32 ms alone; together they cannot save 12.
    quarter = advice(4.0).trials["all sizes x 0.25"]
    assert quarter.setting.predicted[0] == 0.0
    assert quarter.times.p95_ms == pytest.approx(price(4, 4))


def test_a_setting_that_returns_as_much_for_less_is_advised_over_the_present_one():
    found = advice(2.5)
    assert found.best == found.advised == "pre % 4"  # as much as 16, in 2.32 ms
    assert found.trials["pre % 4"].gain.mean == 0.0


def test_nothing_that_fits_is_said_and_the_fastest_is_named():
    found = advice(0.5)
    assert (found.status, found.best, found.advised) == ("none", None, None)
    told = found.as_dict()
    times = {one["label"]: one["p95_ms"] for one in told["settings"]}
    assert times[told["fastest"]] == min(times.values())
    assert not any(one["fits"] for one in told["settings"])


def test_a_budget_above_everything_fits_everything():
    found = advice(1e4)
    assert found.status == "all"
    assert found.trials[found.best].recall.mean == 1.0
    # Of all that return everything the one that ranks least is the fastest.
    assert found.trials[found.advised].times.p95_ms == min(
        one.times.p95_ms for one in found.trials.values() if one.recall.mean == 1.0
    )


def test_the_frontier_holds_what_no_other_setting_beats():
    found = advice(4.0)
    points = {name: (one.times.p95_ms, one.recall.mean) for name, one in found.trials.items()}
    beaten = {
        name
        for name, (ms, worth) in points.items()
        if any(a <= ms and b >= worth and (a, b) != (ms, worth) for a, b in points.values())
    }
    assert set(found.frontier).isdisjoint(beaten)
    assert {points[name] for name in found.frontier} == {
        points[name] for name in points if name not in beaten
    }


def test_a_loss_that_is_not_clear_goes_to_the_faster_one_unless_it_is_much():
    found = advice(100.0)
    asked, trials = panel(cases(), N), found.trials
    best = next(one for one in trials.values() if one.recall.mean == 1.0)
    one_worse, much_worse = (_less(best, count, asked) for count in (1, 40))
    named = {"best": best, "one": one_worse, "much": much_worse}
    assert choose(named, 1e4, "recall", asked) == (best.setting.label, "a little less")
    del named["one"]
    assert choose(named, 1e4, "recall", asked) == (best.setting.label, best.setting.label)


def test_a_late_request_or_two_do_not_make_another_setting_faster():
    found = advice(100.0)
    present, asked = found.trials[PRESENT], panel(cases(), N)
    setting = _changed(present.setting, label="lucky", changes={("pre", "cut"): 15})
    lucky = _changed(present, setting=setting, times=_changed(present.times, p95_ms=present.times.p95_ms / 2))
    assert choose({PRESENT: present, "lucky": lucky}, 100.0, "recall", asked) == ("lucky", PRESENT)


def test_waiting_for_other_work_is_noticed():
    found = advice(100.0)
    assert not found.busy
    times = found.trials[PRESENT].times
    for changes in (
        {"p95_ms": times.p95_ms * 3},
        {"median_ms": times.median_ms * 2, "p95_ms": times.p95_ms * 2},
    ):
        waited = _changed(found.trials[PRESENT], times=_changed(times, **changes))
        assert _changed(found, trials={**found.trials, PRESENT: waited}).busy


def _less(best, count, asked):
    """The same trial, twice as fast, that misses so many wanted items."""
    hits = best.returned.hits.copy()
    hits[:count] = 0
    stages = tuple(_changed(stage, median_ms=stage.median_ms / 2) for stage in best.times.stages)
    times = _changed(best.times, p95_ms=best.times.p95_ms / 2, stages=stages)
    setting = _changed(best.setting, label="a little less" if count == 1 else "much less")
    return _changed(
        best,
        setting=setting,
        times=times,
        returned=_changed(best.returned, hits=hits),
        recall=asked.share(hits),
    )


def _changed(thing, **fields):
    return type(thing)(**{**vars(thing), **fields})


def test_with_too_few_users_for_intervals_only_equals_go_to_the_faster_one():
    watch = Watch()
    found = advise(funnel(watch), cases(20), 100.0, N, clock=watch, seconds=1e6)
    assert found.users == 20
    assert found.trials[found.advised].recall.mean == found.trials[found.best].recall.mean
    assert found.trials[found.advised].gain.low is None


def test_the_first_item_can_be_what_counts():
    found = advice(4.0, metric="precision_at_1")
    assert found.trials[found.best].precision_at_1.mean == 1.0
    with pytest.raises(ConfigError, match="expected one of recall, precision_at_1, got 'fame'"):
        advice(4.0, metric="fame")


def test_little_time_leaves_settings_out_and_says_how_many():
    watch = Watch()
    found = advise(funnel(watch), cases(), 4.0, N, clock=watch, seconds=1.0)
    assert found.left_out > 0
    assert watch.now < 5.0
    assert PRESENT in found.trials
    assert found.as_dict()["left_out"] == found.left_out


def test_the_answer_is_plain_values_and_its_expression_can_be_read_back():
    told = advice(4.0).as_dict()
    assert json.loads(json.dumps(told)) == told
    chosen = next(one for one in told["settings"] if one["label"] == told["advised"])
    assert chosen["changes"] == [
        {"stage": "first", "what": "limit", "from": 16, "to": 64},
        {"stage": "pre", "what": "cut", "from": 16, "to": 4},
    ]
    assert chosen["toml"] == f'pipeline = "first % 64 >> pre % 4 >> rank % {K}"'
    stages = {one.title: one for one in leaves(funnel(Watch()))}
    assert repr(parse(chosen["pipeline"], stages)) == chosen["pipeline"]


def test_a_tree_is_tried_with_other_beams(world, tree_bundle):
    watch = Watch()
    pipeline = load_recommender(tree_bundle).pipeline
    found = advise(pipeline, world.split().test, 50.0, len(world.items), requests=2, clock=watch)
    assert {"tree beam 30", "tree beam 60"} <= set(found.trials)
    assert found.advised == PRESENT or found.trials[found.advised].gain.mean >= -0.01


def test_a_pipeline_without_a_cut_keeps_slates_of_one_size():
    watch = Watch()
    pipeline = as_pipeline(listed("a", range(40), limit=20)) >> RandomScorer(name="rank")
    found = advise(pipeline, cases(40), 10.0, N, clock=watch, requests=2)
    assert found.k == 10
    assert all(one.returned.hits.shape == (40,) for one in found.trials.values())
    assert repr(found.trials[PRESENT].setting.pipeline) == "a % 20 >> rank % 10"


@pytest.mark.parametrize(
    ("text", "ms"), [("30ms", 30.0), ("0.03s", 30.0), ("30", 30.0), (" 1.5 ms ", 1.5), (".5s", 500.0)]
)
def test_budgets_are_read_in_milliseconds_or_seconds(text, ms):
    assert parse_budget(text) == pytest.approx(ms)


@pytest.mark.parametrize("text", ["", "fast", "-3ms", "0", "30 min", "1e3ms", "nan", "inf"])
def test_other_budgets_are_refused_with_an_example(text):
    with pytest.raises(ConfigError, match=r"expected a time above 0 such as 30ms or 0\.03s"):
        parse_budget(text)


def test_budgets_must_be_positive_and_somebody_must_ask():
    with pytest.raises(ConfigError, match="expected milliseconds above 0"):
        advice(0.0)
    with pytest.raises(DataError, match="expected held-out cases"):
        advise(funnel(Watch()), cases(0), 3.0, N)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    advice(4.0, requests=2)
    assert torch.get_num_threads() == before
