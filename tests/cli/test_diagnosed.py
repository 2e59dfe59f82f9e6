from dataclasses import asdict
from io import StringIO

from rich.console import Console

from shortlist.cli.diagnosed import calibration_lines, segment_lines, shift_lines, show_funnel, verdict_line
from shortlist.diagnose.findings.findings import advice
from tests.diagnose.made_up import between, segment, whole


def shown(told):
    written = StringIO()
    show_funnel({**told, "findings": [asdict(one) for one in advice(told)]}, Console(width=130, file=written))
    return written.getvalue()


def test_the_verdict_comes_first_then_stages_findings_and_the_rest():
    text = shown(whole())
    order = [
        "the funnel returned 150",
        "biggest avoidable loss is at 'pool'",
        "which stage loses what: 400 users, 1,000 wanted items",
        "1. 'pool'",
        "-> More items from a nominator",
        "2. 'rank'",
        "who finds it",
        "without the first stages:",
        "training and serving, rank:",
        "odds of rank:",
        "items, tail",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places[:-1]
    assert places[:-1] == sorted(places[:-1])
    assert places[-1] == -1  # too few users to speak of


def test_the_biggest_loss_is_marked_and_nothing_else():
    marked = [line.strip() for line in shown(whole()).splitlines() if line.strip().startswith("> ")]
    assert len(marked) == 2
    assert marked[1].startswith("> biggest avoidable loss")  # what the mark means
    assert marked[0].startswith("> pool")
    assert "30.0 [29.0, 31.0]" in marked[0]


def test_names_are_no_markup():
    told = whole(warnings=["[bold]twelve[/bold] users"])
    assert "mind: [bold]twelve[/bold] users" in shown(told)


def test_the_verdict_is_one_line_or_why_there_is_none():
    assert "cannot be told from chance: its first item is wanted for 20.0% of 400 users" in verdict_line(
        whole()["verdict"]
    )
    same = {**whole()["verdict"], "difference": between(0.0, 0.0), "gain": between(0.0, 0.0)}
    assert verdict_line(same).endswith("they cost it nothing")
    assert verdict_line({}) == "without the first stages: there is no scorer to ask"
    assert verdict_line({"answer": "undecided", "accuracy": None, "why": "it looks at all"}).endswith(
        "it looks at all"
    )


def test_scorers_without_numbers_say_why():
    assert shift_lines({"shift": {"rank": {"why": "no record"}}}) == ["training and serving, rank: no record"]
    assert calibration_lines({"rank": {"why": "no candidates"}}) == ["odds of rank: no candidates"]
    assert "noticeable" in shift_lines(whole())[0]
    assert "; 3.0% with its scores divided by 1.60" in calibration_lines(whole()["calibration"])[0]


def test_segments_furthest_from_everyone_are_told():
    many = [segment("items", f"part {at}", 100, 0.15 + 0.01 * at) for at in range(6)]
    lines = segment_lines(whole(segments=many))
    assert [line.split(":")[0] for line in lines] == ["items, part 5", "items, part 4", "items, part 3"]
    assert segment_lines(whole(segments=[])) == []


def test_the_mode_of_a_ranker_and_what_its_training_warned_of_are_told():
    guard = {"kept": 228, "instances": 400, "recall": 0.57}
    one = {"mode": "mixed", "negatives": "both", "harmony": guard, "warnings": ["rank: too few"]}
    assert shift_lines({"shift": {"rank": {"why": "no record"}}, "training": {"rank": one}}) == [
        "training of rank: mode = 'mixed', negatives = 'both'; 228 of 400 wanted items (57.0%) were among its "
        "candidates",
        "mind, training of rank: too few",
        "training and serving, rank: no record",
    ]
