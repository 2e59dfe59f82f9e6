import json
import re
from dataclasses import asdict

import pytest

from shortlist.diagnose.findings.findings import advice
from shortlist.report.diagnosis.page import diagnosis_page
from tests.diagnose.made_up import knob, made_up, whole


@pytest.fixture(scope="module")
def told():
    return with_findings(whole())


def with_findings(told):
    return {**told, "findings": [asdict(one) for one in advice(told)]}


def test_the_page_begins_with_the_biggest_loss_its_knob_and_the_gain(told):
    page = diagnosis_page(told)
    order = [
        "In short",
        "biggest avoidable loss is at &#x27;pool&#x27;",
        "1. &#x27;pool&#x27; (where candidates come from) loses 300",
        "limit = 400 at &#x27;covisit&#x27; gave +0.2 points",
        "2. &#x27;rank&#x27; (a ranker) loses 290",
        "Where wanted items are lost",
        "What would a perfect stage bring?",
        "How it was measured",
    ]
    places = [page.index(part) for part in order]
    assert places == sorted(places)


def test_every_term_is_explained_once_where_it_first_appears(told):
    page = diagnosis_page(told)
    for term in (
        "A wanted item is something that",
        "A recommender is a funnel: stages",
        "A point is one wanted item in a hundred",
        "numbers in square brackets say".capitalize(),
        "is called a candidate",
        "together they are the pool",
        "a perfect one, an oracle, which keeps",
        "A knob is a setting",
        "then it is calibrated",
        "this is called shift",
    ):
        assert page.count(term) == 1, term
    assert page.index("A wanted item is") < page.index("biggest avoidable loss")


def test_what_cannot_be_deployed_is_marked_so(told):
    page = diagnosis_page(told)
    assert "An oracle looks at the answers. Nobody can install one" in page
    assert "looks at the answers and cannot be deployed" in page


def test_every_part_has_its_section_and_drawings_have_numbers_of_users(told):
    page = diagnosis_page(told)
    for title in (
        "Knobs that were really turned",
        "What else is worth knowing",
        "Would it be better without the first stages?",
        "Who finds it, and who would be missed?",
        "For whom does it work?",
        "How much of the catalogue is used?",
        "Does it serve what it learned from?",
        "Can its numbers be read as odds?",
    ):
        assert f"<h2>{title}</h2>" in page
    captions = [part.split("</figcaption>")[0] for part in page.split("<figcaption>")[1:]]
    assert len(captions) == 4
    assert all("users" in one for one in captions)


def test_the_page_needs_nothing_but_itself_and_escapes_what_it_is_given(told):
    evil = json.loads(json.dumps(told).replace('"pool"', '"<b>pool"'))
    page = diagnosis_page(evil)
    assert "<b>pool" not in page
    assert "&lt;b&gt;pool" in page
    own = r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*"
    assert "http" not in re.sub(own, "", page)
    assert "<script" not in page


def test_the_same_values_give_the_same_page(told):
    assert diagnosis_page(told) == diagnosis_page(json.loads(json.dumps(told)))


def test_knobs_that_need_training_say_how_to_have_them_measured(told):
    more = with_findings({**told, "knobs": [*told["knobs"], knob("rank", "mode", "mixed", None)]})
    assert "because it needs training: mode = mixed at &#x27;rank&#x27;. With --retrain" in diagnosis_page(
        more
    )
    refused = {**knob("rank", "mode", "mixed", None), "why": "nothing was retrieved"}
    page = diagnosis_page(with_findings({**told, "knobs": [refused]}))
    assert "could not be trained: nothing was retrieved" in page


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": None},
        {"verdict": {"answer": "undecided", "accuracy": None, "why": "there is no ranker"}},
        {"nominators": {}, "knobs": [], "segments": [], "shift": {}, "calibration": {}, "coverage": None},
        {
            "shift": {"rank": {"why": "no record"}},
            "calibration": {"rank": {"why": "had no candidates at all"}},
        },
        {"warnings": ["only 12 users: no intervals"]},
    ],
)
def test_parts_that_are_not_there_are_left_out_or_say_why(told, changes):
    page = diagnosis_page(with_findings({**told, **changes}))
    for said in ("here is no ranker", "o record", "ad no candidates at all", "nly 12 users: no intervals"):
        assert (said in page) == (said in json.dumps(changes))
    assert "None" not in page
    assert "nan" not in page.split("</style>")[1].split("<figure>")[0]


def test_values_without_intervals_are_drawn_and_told(told):
    few = json.loads(json.dumps(told))
    for one in few["stages"]:
        for part in (one["share"], one["what_if"]["oracle"]):
            part |= {"low": None, "high": None}
    few["recall"] |= {"low": None, "high": None}
    page = diagnosis_page(with_findings(few))
    assert "A perfect &#x27;rank&#x27; would bring +7.2 points (" in page
    assert "the funnel returned 150: 15.0%." in page


def test_an_empty_sample_has_a_page_too():
    nothing = {"mean": None, "low": None, "high": None}
    told = whole(wanted=0, returned=0, users=0, stages=[], knobs=[], nominators={}, segments=[], findings=[])
    page = diagnosis_page({**told, "recall": nothing, "precision_at_1": nothing})
    assert "nothing can be said" in page


def test_trees_bring_their_own_sections(told, tree):
    page = diagnosis_page({**told, "trees": {"oak": tree}})
    assert "<h2>The tree &#x27;oak&#x27;: in short</h2>" in page
    assert "<h2>The tree &#x27;oak&#x27;: would a wider beam help?</h2>" in page


def test_made_up_numbers_are_balanced():
    told = made_up()
    assert sum(one["lost"] for one in told["stages"]) + told["returned"] == told["wanted"]
