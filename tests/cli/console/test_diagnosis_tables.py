from dataclasses import replace
from io import StringIO

from shortlist.cli.console.diagnosis_tables import (
    calibration_lines,
    segment_lines,
    shift_lines,
    show_funnel,
    verdict_line,
)
from shortlist.cli.console.output import Console
from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.pipeline import About, TrainingHistory
from shortlist.pipeline.about import RetrievedTargets
from tests.diagnose.example import CALIBRATION, VERDICT, between, full_diagnosis, segment


def shown(found):
    written = StringIO()
    show_funnel(with_findings(found), Console(width=130, file=written))
    return written.getvalue()


def test_summary_comes_first_then_stages_findings_and_details():
    text = shown(full_diagnosis())
    order = [
        "the mean over 400 validation users",
        "Most avoidable losses are decided by 'pool'",
        "which stage loses what: 400 validation users, 1,000 relevant items",
        "1. 'pool'",
        "-> Without training no setting gains significantly",
        "2. 'rank'",
        "recall without it",
        "whole catalogue:",
        "shift of rank:",
        "calibration of rank:",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places
    assert places == sorted(places)
    assert "items, tail" not in text  # too few users


def test_stage_with_the_most_avoidable_losses_is_marked_and_nothing_else():
    lines = [line.strip() for line in shown(full_diagnosis()).splitlines() if line.strip().startswith("> ")]
    assert len(lines) == 2
    assert lines[0].startswith("> pool")
    assert "30.0 [29.0, 31.0]" in lines[0]
    assert lines[1].startswith("> most avoidable losses")  # the meaning of the mark


def test_names_are_not_interpreted_as_markup():
    found = full_diagnosis(warnings=("[bold]twelve[/bold] users",))
    assert "warning: [bold]twelve[/bold] users" in shown(found)


def test_verdict_is_one_line_or_the_reason_why_there_is_none():
    expected = "undecided whether the stages before 'rank' help it: its first item is relevant for 20.0% of 400 users"
    assert expected in verdict_line(VERDICT)
    same = replace(VERDICT, difference=between(0.0, 0.0), gain=between(0.0, 0.0))
    assert verdict_line(same).endswith("the stages before it cost nothing")
    assert verdict_line(NotMeasured("it is listwise")) == "whole catalogue: it is listwise"


def test_scorers_that_were_not_measured_say_why():
    missing = {"rank": NotMeasured("no record")}
    assert shift_lines(full_diagnosis(shift=missing)) == ["shift of rank: no record"]
    assert calibration_lines(missing) == ["calibration of rank: no record"]
    assert "noticeable" in shift_lines(full_diagnosis())[0]
    assert "; 3.0% with scores divided by 1.60" in calibration_lines({"rank": CALIBRATION})[0]


def test_segments_furthest_from_the_overall_recall_are_shown():
    many = tuple(segment("items", f"part {at}", 100, 0.15 + 0.01 * at) for at in range(6))
    lines = segment_lines(full_diagnosis(segments=many))
    assert [line.split(":")[0] for line in lines] == ["items, part 5", "items, part 4", "items, part 3"]
    assert segment_lines(full_diagnosis(segments=())) == []


def test_training_mode_and_warnings_of_a_ranker_are_shown():
    retrieved = RetrievedTargets("ok", 0.57, 400, 228, 0.57, 0, 0.0)
    history = TrainingHistory(
        1, 1, mode="mixed", negatives="both", retrieved=retrieved, warnings=("rank: too few",)
    )
    found = full_diagnosis(shift={"rank": NotMeasured("no record")}, about=About(training={"rank": history}))
    assert shift_lines(found) == [
        "training of rank: mode = 'mixed', negatives = 'both'; 228 of 400 targets (57.0%) were among its candidates",
        "warning, training of rank: too few",
        "shift of rank: no record",
    ]
