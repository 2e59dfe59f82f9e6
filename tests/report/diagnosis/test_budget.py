import pytest

from shortlist.diagnose.knobs.budget import advise
from shortlist.diagnose.knobs.trials import PRESENT
from shortlist.report.diagnosis.budget import budget_lines, budget_section, cautions, verdict
from shortlist.report.page import page
from tests.diagnose.knobs.funnels import N, Watch, cases, funnel


def told(budget_ms, users=2 * N, **options):
    watch = Watch()
    given = {"clock": watch, "seconds": 1e6, **options}
    return advise(funnel(watch), cases(users), budget_ms, N, **given).as_dict()


@pytest.fixture(scope="module")
def tight():
    return told(4.0)


def shown(one):
    return page("budget", [budget_section(one)])


def test_the_page_says_what_to_take_and_how_to_write_it(tight):
    text = shown(tight)
    assert "What can be had within 4 ms?" in text
    assert "Take &#x27;first % 64, pre % 4&#x27;: it takes 3.28 ms" in text
    assert "pipeline = &quot;first % 64 &gt;&gt; pre % 4 &gt;&gt; rank % 4&quot;" in text
    assert "clearly more" in text
    assert "the faster of two tries each" in text  # so it is no promise for a busy server
    assert text.count("<svg") == 1
    assert "128 users for the worth, 60 requests" in text
    assert all(one["label"] in text for one in tight["settings"])


def test_terms_are_explained_once(tight):
    text = shown(tight)
    for term in (
        "(recall)",
        "(its beam)",
        "(the frontier)",
        "what a user really met next",
        "95 of 100 requests",
    ):
        assert text.count(term) == 1, term


def test_the_terminal_is_told_the_same(tight):
    lines = budget_lines(tight)
    assert lines[0].startswith("budget 4 ms:")
    assert any("Take 'first % 64, pre % 4'" in line for line in lines)
    assert any("3.28 ms" in line and "(advised, best)" in line for line in lines)
    assert any('pipeline = "first % 64 >> pre % 4 >> rank % 4"' in line for line in lines)


def test_nothing_that_fits_names_the_fastest_and_the_slowest_stage():
    said = " ".join(verdict(told(0.5)))
    assert "No setting that was measured fits into 0.50 ms" in said
    assert "most of the time goes to 'rank', 2.00 of 2.08 ms" in said
    assert "which is too long, and returns 25.0%" in said
    assert "Take" not in said
    assert "No setting that was measured fits" in shown(told(0.5))


def test_a_budget_above_everything_is_said():
    said = " ".join(verdict(told(1e4)))
    assert "fit: even the slowest takes only 33.3 ms, so time is not what limits this pipeline" in said
    assert "far to the right" not in said


def test_leaving_it_as_it_is_is_an_advice_too(tight):
    kept = dict(tight) | {"advised": PRESENT, "best": PRESENT}
    assert "Leave it as it is" in " ".join(verdict(kept))
    assert "In the TOML file" not in shown(kept)
    assert not any("looks a little better" in one for one in cautions(kept))
    apart = dict(tight) | {"advised": PRESENT}
    assert "The best mean has 'first % 64, pre % 4'" in " ".join(verdict(apart))
    assert " ".join(verdict(apart)).endswith("That is not clearly more on these users.")
    simpler = dict(tight) | {"advised": "first % 64"}
    assert "so what takes about the same time with fewer changes is advised" in " ".join(verdict(simpler))
    faster = dict(tight) | {"best": PRESENT}
    assert "so the faster one is advised" in " ".join(verdict(faster))


def test_what_speaks_against_trusting_it_is_said(tight):
    assert len(cautions(tight)) == 1
    doubtful = " ".join(cautions(dict(tight) | {"busy": True, "left_out": 3, "users": 12}))
    assert "With 12 users there are no intervals" in doubtful
    assert "Something else was at work" in doubtful
    assert "no time for 3 further settings" in doubtful


def test_few_users_have_a_page_without_intervals():
    text = shown(told(4.0, users=10))
    assert "Brackets hold" not in text
    assert "[" not in text.partition("<table>")[2].partition("</table>")[0]


def test_the_first_item_can_be_what_counts():
    one = told(4.0, metric="precision_at_1")
    assert "precision at 1" in shown(one)
    assert "begins 100.0%" in " ".join(verdict(one))


def test_names_are_no_html(tight):
    settings = [
        one | {"label": "<b>" if one["label"] == PRESENT else one["label"]} for one in tight["settings"]
    ]
    text = shown(dict(tight) | {"settings": settings, "present": "<b>"})
    assert "<b>" not in text
