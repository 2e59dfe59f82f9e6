from itertools import product

import pytest

from shortlist.diagnose.knobs.combined import COMBINED, combined, with_predictions
from shortlist.diagnose.knobs.sizes import Size
from shortlist.diagnose.knobs.stage_times import Times
from shortlist.diagnose.knobs.trials import CURRENT, Hits, Predicted, SizeSetting, Trial
from shortlist.metrics.estimate import Estimate
from tests.diagnose.knobs.funnels import funnel
from tests.evaluate.test_latency import FakeClock

SIZES = (Size("first", "limit", 16, 1, 64), Size("pre", "cut", 16, 4, 64))
ADDS = {  # what each size adds to 10 ms and a recall of 0.5
    ("first", "limit"): {8: (-1.0, -0.05), 32: (3.0, 0.1), 64: (9.0, 0.15)},
    ("pre", "cut"): {8: (-4.0, -0.01), 4: (-5.0, -0.2), 32: (2.0, 0.02)},
}


def tried(extra=()):
    pipeline = funnel(FakeClock())
    settings = {(): (0.0, 0.0)}
    settings |= {((key, size),): adds for key, sizes in ADDS.items() for size, adds in sizes.items()}
    settings |= dict(extra)
    made = {}
    for changes, (ms, value) in settings.items():
        setting = SizeSetting.of(pipeline, dict(changes))
        times = Times(10 + ms, 2 * (10 + ms), 9, ())
        recall = Estimate(0.5 + value)
        nothing = Hits.__new__(Hits)  # hits per request are not used
        made[setting.label] = Trial(setting, times, nothing, recall, recall, Estimate(value))
    return made


def sums(changes):
    return tuple(sum(ADDS[key][size][at] for key, size in changes.items()) for at in (0, 1))


@pytest.mark.parametrize("budget_ms", [12.0, 18.0, 22.0, 30.0, 99.0])
def test_best_sum_within_the_budget_is_measured(budget_ms):
    found = combined(funnel(FakeClock()), SIZES, tried(), budget_ms, "recall")
    pairs = [dict(zip(ADDS, sizes, strict=True)) for sizes in product(*(ADDS[key] for key in ADDS))]
    fitting = [pair for pair in pairs if 2 * (10 + sums(pair)[0]) <= budget_ms]
    assert 1 <= len(found) <= COMBINED
    best = max(fitting, key=lambda pair: sums(pair)[1])
    # No single change is as good and faster: then no pair of changes needs to be tried.
    assert max(sums(one.changes)[1] for one in found) == pytest.approx(sums(best)[1])
    assert all(2 * (10 + sums(one.changes)[0]) <= budget_ms for one in found)


def test_fastest_is_tried_if_nothing_fits():
    found = combined(funnel(FakeClock()), SIZES, tried(), 1.0, "recall")
    assert [one.changes for one in found] == [{("first", "limit"): 8, ("pre", "cut"): 4}]


def test_measured_settings_are_not_tried_again():
    pair = {("first", "limit"): 8, ("pre", "cut"): 4}
    known = tried({tuple(pair.items()): (-6.0, -0.2)})
    assert combined(funnel(FakeClock()), SIZES, known, 1.0, "recall") == []


def test_settings_of_several_changes_hold_the_sum_of_single_effects():
    pair = {("first", "limit"): 32, ("pre", "cut"): 8}
    trials = with_predictions(tried({tuple(pair.items()): (5.0, 0.0)}), SIZES, "recall")
    predicted = trials["first % 32, pre % 8"].setting.predicted
    assert predicted == Predicted(pytest.approx(2 * (10 + 3 - 4)), pytest.approx(0.5 + 0.1 - 0.01))
    assert trials[CURRENT].setting.predicted is None is trials["pre % 8"].setting.predicted
