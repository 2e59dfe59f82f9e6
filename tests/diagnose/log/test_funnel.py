"""The funnel of a log on disk: labels, several funnels and rules, and logs without requests."""

import pytest

from shortlist.data import Query
from shortlist.diagnose.log import diagnose_log
from shortlist.errors import ConfigError, DataError
from shortlist.feedback.events.append import append_events
from shortlist.feedback.join import join_feedback
from shortlist.feedback.outcomes import LabelRules
from shortlist.feedback.write.sampling import Quota, Sampling
from shortlist.pipeline import run
from tests.feedback.logs import funnel, traces, write_log
from tests.feedback.test_join import LATER, feedback_of
from tests.worlds import RandomFilter, listed

CAPS = (60, 20, 10, 5)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    write_log(root, traces(funnel(*CAPS), 30, 4), step=60_000)
    columns, _ = feedback_of(root)
    append_events(root, columns, ingest_ts_ms=LATER)
    join_feedback(root, LabelRules(), LATER)
    return root


@pytest.fixture(scope="module")
def found(log):
    return diagnose_log(log)


def test_flow_of_candidates_is_that_of_the_funnel(found):
    assert (found.requests, found.sampled, found.served) == (120, 120, 600)
    assert [one.name for one in found.stages] == ["pool", "stage2", "stage3", "stage4"]
    assert [one.kept for one in found.stages] == list(CAPS)
    assert found.positives + found.negatives == 600


def test_nominators_share_what_was_shown(found):
    assert found.revealed_by == "shown"
    assert list(found.nominators) == ["left", "right"]
    assert sum(own.reveal_share_split for own in found.nominators.values()) == pytest.approx(1)
    assert found.nominators["left"].returned == 40


def test_random_orders_of_stages_do_not_agree(found):
    for one in found.agreement[1:]:  # the pool orders by rank
        assert abs(one.tau_b.mean) < 0.1


def test_labels_are_said_to_be_of_shown_candidates_only(found):
    assert found.notes[0].startswith("labels exist for shown candidates only")
    assert not found.problems.counts


def test_sample_is_bounded_and_counts_are_not(log):
    few = diagnose_log(log, requests=25)
    assert (few.requests, few.sampled) == (120, 25)


def test_log_without_labels_says_how_to_make_them(tmp_path):
    write_log(tmp_path, traces(funnel(*CAPS), 6))
    found = diagnose_log(tmp_path)
    assert found.revealed_by == "served"
    assert f"shortlist log join {tmp_path}" in found.notes[0]
    assert found.utility is None
    assert {one.target for one in found.score_aucs} == {"served"}


def test_sampled_log_has_the_flow_and_nearly_the_reveal_ratios_of_the_full_one(log, found, tmp_path):
    write_log(tmp_path, traces(funnel(*CAPS), 30, 4), Sampling({1: Quota(8)}), step=60_000)
    few = diagnose_log(tmp_path)
    assert few.candidates < found.candidates
    assert [one.kept for one in few.stages] == list(CAPS)
    assert few.nominators["left"].returned == pytest.approx(40, rel=0.1)


def test_requests_of_other_funnels_are_left_out_with_a_note(tmp_path):
    write_log(tmp_path, [*traces(funnel(*CAPS), 6), *traces(funnel(60, 5), 2)])
    found = diagnose_log(tmp_path)
    assert (found.requests, found.sampled, len(found.stages)) == (6, 6, 4)
    assert "2 requests of another funnel are left out: pool > stage2" in found.notes


def test_labels_of_several_rules_need_a_choice(log, tmp_path):
    other = join_feedback(log, LabelRules(("like",)), LATER).rule_version
    with pytest.raises(ConfigError, match="labels of several rules; choose one with --label-rule"):
        diagnose_log(log)
    assert diagnose_log(log, rule=other).positives == 0


def test_log_without_requests_is_refused(tmp_path):
    with pytest.raises(DataError, match="expected requests in the log, got none"):
        diagnose_log(tmp_path)


def test_items_that_nobody_nominates_any_more_are_counted(tmp_path):
    """Three requests, four days apart; the last two nominate half of the items."""
    runs = [
        run(listed("a", items) >> RandomFilter(), Query.of([[]])).trace
        for items in (range(10), range(5), range(5))
    ]
    write_log(tmp_path / "slow", runs, step=4 * 86_400_000)
    notes = diagnose_log(tmp_path / "slow").notes
    assert any(
        one.startswith("5 of 10 logged items were nominated before, but by no nominator") for one in notes
    )
    write_log(tmp_path / "fast", runs, step=1000)
    assert not any("7 days" in one for one in diagnose_log(tmp_path / "fast").notes)
