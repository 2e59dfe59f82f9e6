from dataclasses import replace

import pytest

from shortlist.diagnose.knobs.budget import search_budget
from shortlist.diagnose.knobs.trials import CURRENT
from shortlist.report.diagnosis.budget import budget_lines, budget_section, cautions, verdict
from shortlist.report.page import page
from tests.diagnose.knobs.funnels import N, funnel, held_out
from tests.evaluate.test_latency import FakeClock


def report(budget_ms, users=2 * N, **options):
    clock = FakeClock()
    given = {"clock": clock, "seconds": 1e6, **options}
    return search_budget(funnel(clock), held_out(users), budget_ms, N, **given).report()


@pytest.fixture(scope="module")
def tight():
    return report(4.0)


def shown(budget):
    return page("budget", [budget_section(budget)])


def test_page_says_what_to_use_and_how_to_write_it(tight):
    text = shown(tight)
    assert "The best sizes within 4 ms" in text
    assert "Use &#x27;first % 64, pre % 4&#x27;: it takes 3.28 ms" in text
    assert "pipeline = &quot;first % 64 &gt;&gt; pre % 4 &gt;&gt; rank % 4&quot;" in text
    assert "significantly more" in text
    assert "the faster of two tries each" in text  # so it is no promise for a loaded server
    assert text.count("<svg") == 1
    assert "128 users for the metric, 60 requests" in text
    assert all(one.label in text for one in tight.settings)


def test_measurement_is_explained_once(tight):
    text = shown(tight)
    for term in ("recall@4:", "the 95th percentile of single requests", "The line is the Pareto frontier"):
        assert text.count(term) == 1, term


def test_terminal_has_the_same_advice(tight):
    lines = budget_lines(tight)
    assert lines[0].startswith("budget 4 ms:")
    assert any("Use 'first % 64, pre % 4'" in line for line in lines)
    assert any("3.28 ms" in line and "(advised, best)" in line for line in lines)
    assert any('pipeline = "first % 64 >> pre % 4 >> rank % 4"' in line for line in lines)


def test_without_a_fitting_setting_the_fastest_and_the_slowest_stage_are_named():
    text = " ".join(verdict(report(0.5)))
    assert "No measured setting fits into 0.50 ms" in text
    assert "'rank' takes most, 2.00 of 2.08 ms" in text
    assert "which is above the budget, and has a recall@4 of 25.0%" in text
    assert "Use" not in text
    assert "No measured setting fits" in shown(report(0.5))


def test_budget_above_all_settings_does_not_limit_the_pipeline():
    text = " ".join(verdict(report(1e4)))
    assert "fit: the slowest takes 33.3 ms, so latency does not limit this pipeline" in text
    assert "far to the right" not in text


def test_current_setting_can_be_advised(tight):
    kept = replace(tight, advised=CURRENT, best=CURRENT)
    assert "Keep the current setting" in " ".join(verdict(kept))
    assert "In the TOML file" not in shown(kept)
    assert not any("overestimated" in text for text in cautions(kept))
    apart = replace(tight, advised=CURRENT)
    assert "The highest mean is at 'first % 64, pre % 4'" in " ".join(verdict(apart))
    assert " ".join(verdict(apart)).endswith("That is not significantly better on these users.")
    simpler = replace(tight, advised="first % 64")
    assert "so the one with fewer changes and about the same latency is advised" in " ".join(verdict(simpler))
    faster = replace(tight, best=CURRENT)
    assert "so the faster one is advised" in " ".join(verdict(faster))


def test_limits_of_validity_are_shown(tight):
    assert len(cautions(tight)) == 1
    doubtful = " ".join(cautions(replace(tight, busy=True, left_out=3, users=12)))
    assert "With 12 users there are no intervals" in doubtful
    assert "Other work on this machine" in doubtful
    assert "no time for 3 further settings" in doubtful


def test_page_of_few_users_has_no_intervals():
    text = shown(report(4.0, users=10))
    assert "Brackets hold" not in text
    assert "[" not in text.partition("<table>")[2].partition("</table>")[0]


def test_metric_can_be_precision_at_1():
    budget = report(4.0, metric="precision_at_1")
    assert "precision@1: the share of slates" in shown(budget)
    assert "has a precision@1 of 100.0%" in " ".join(verdict(budget))


def test_labels_are_escaped(tight):
    settings = tuple(
        replace(one, label="<b>" if one.label == CURRENT else one.label) for one in tight.settings
    )
    frontier = tuple("<b>" if label == CURRENT else label for label in tight.frontier)
    text = shown(replace(tight, settings=settings, current="<b>", frontier=frontier))
    assert "<b>" not in text
