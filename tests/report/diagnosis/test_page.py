import re
from dataclasses import replace

import pytest

from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.evaluate.funnel import FunnelMetrics, RevealRatio, StageAgreement, StageUtility
from shortlist.metrics.estimate import Estimate
from shortlist.metrics.significance import Interval
from shortlist.report.diagnosis.page import diagnosis_page, findings_table
from tests.diagnose.example import diagnosis, full_diagnosis, knob, with_stage


@pytest.fixture(scope="module")
def found():
    return with_findings(full_diagnosis())


def test_page_begins_with_the_largest_loss_its_knob_and_the_gain(found):
    page = diagnosis_page(found)
    order = [
        "Summary",
        "Most avoidable losses are decided by &#x27;pool&#x27;",
        "Findings in words",
        "1. &#x27;pool&#x27; (candidate generation) loses 300",
        "limit = 400 at &#x27;covisit&#x27; gave +0.2 points",
        "2. &#x27;rank&#x27; (a ranker) loses 290",
        "Where relevant items are lost",
        "What would a perfect stage bring?",
        "How it was measured",
    ]
    places = [page.index(part) for part in order]
    assert places == sorted(places)


def test_terms_are_explained_once(found):
    page = diagnosis_page(found)
    for term in (
        "A relevant item is one",
        "A point is one percentage point",
        "Brackets hold 95 % intervals",
        "together they are the pool",
        "ECE is the expected calibration error",
        "distribution shift.",
    ):
        assert page.count(term) == 1, term


def test_page_says_which_users_were_measured(found):
    page = diagnosis_page(found)
    assert "400 of 500 validation users" in page
    assert "test users" in diagnosis_page(replace(found, sample=replace(found.sample, on="test")))


def test_page_says_that_oracles_cannot_be_deployed_and_keep_other_stages_as_trained(found):
    page = diagnosis_page(found)
    assert "An oracle knows the held-out answers and cannot be deployed" in page
    assert "the other stages stay as trained" in page


def test_every_part_has_a_section_and_every_plot_its_number_of_users(found):
    page = diagnosis_page(found)
    for title in (
        "Knobs",
        "Findings in words",
        "Do the first stages help the ranker?",
        "Nominators",
        "Recall by segment",
        "How much of the catalogue is used?",
        "Does serving match training?",
        "Are the scores calibrated?",
    ):
        assert f"<h2>{title}</h2>" in page
    captions = [part.split("</figcaption>")[0] for part in page.split("<figcaption>")[1:]]
    assert len(captions) == 7
    assert all("users" in caption for caption in captions)


def test_funnel_as_one_system_has_a_section(found):
    once = Interval(0.25, 0.2, 0.3)
    funnel = FunnelMetrics(
        10,
        once,
        1.5,
        (StageUtility("pool", once, 1.2, once),),
        (StageAgreement("pool", "rank", 40, once, once, once),),
        {"covisit": RevealRatio(60.0, 0.1, 0.05, 0.6, 0.4)},
    )
    page = diagnosis_page(replace(found, funnel=funnel))
    for part in ("The funnel as one system", "Recall@k@10", "pool, rank", "10.00%", "Kendall"):
        assert part in page
    assert "The funnel as one system" not in diagnosis_page(replace(found, funnel=None))


def test_page_is_self_contained_and_escapes_names(found):
    evil = with_findings(with_stage(found, 0, name="<b>pool"))
    page = diagnosis_page(evil)
    assert "<b>pool" not in page
    assert "&lt;b&gt;pool" in page
    own = r"http-equiv|http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*"
    assert "http" not in re.sub(own, "", page)
    assert "<script" not in page


def test_page_is_deterministic(found):
    assert diagnosis_page(found) == diagnosis_page(replace(found))


def test_knobs_that_need_training_say_how_to_measure_them(found):
    waiting = knob("rank", "mode", "mixed", None)
    page = diagnosis_page(with_findings(replace(found, knobs=(*found.knobs, waiting))))
    assert "because it needs training: mode = mixed at &#x27;rank&#x27;. --retrain" in page
    refused = replace(waiting, why="nothing was retrieved")
    page = diagnosis_page(with_findings(replace(found, knobs=(refused,))))
    assert "could not be trained: nothing was retrieved" in page


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"verdict": NotMeasured("there is no ranker")}, ["There is no ranker."]),
        ({"nominators": {}, "knobs": (), "segments": (), "shift": {}, "calibration": {}}, []),
        (
            {
                "shift": {"rank": NotMeasured("no record")},
                "calibration": {"rank": NotMeasured("no candidates")},
            },
            ["No record.", "No candidates."],
        ),
        ({"warnings": ("only 12 users: no intervals",)}, ["Warning: only 12 users: no intervals"]),
    ],
)
def test_parts_without_numbers_are_left_out_or_say_why(found, changes, reasons):
    page = diagnosis_page(with_findings(replace(found, **changes)))
    assert all(reason in page for reason in reasons)
    assert "None" not in page
    assert "nan" not in page.split("</style>")[1].split("<figure>")[0]


def test_values_without_intervals_are_drawn_and_written(found):
    few = replace(found, recall=Estimate(found.recall.mean))
    for number, stage in enumerate(found.stages):
        oracle = Estimate(stage.what_if.oracle.mean)
        what_if = replace(stage.what_if, oracle=oracle)
        few = with_stage(few, number, share=Estimate(stage.share.mean), what_if=what_if)
    page = diagnosis_page(with_findings(few))
    assert "a perfect &#x27;rank&#x27; would bring +7.2 points (" in page
    assert "Recall@10 is 15.0%, the mean over" in page


def test_sample_without_relevant_items_has_a_page():
    nothing = Estimate(None)
    empty = full_diagnosis(
        relevant=0,
        returned=0,
        users=0,
        stages=(),
        knobs=(),
        nominators={},
        segments=(),
        recall=nothing,
        precision_at_1=nothing,
    )
    assert "nothing can be measured" in diagnosis_page(empty)


def test_trees_have_their_own_sections(found, tree):
    page = diagnosis_page(replace(found, trees={"oak": tree}))
    assert "<h2>Tree &#x27;oak&#x27;: summary</h2>" in page


def test_example_balances():
    example = diagnosis()
    assert sum(stage.lost for stage in example.stages) + example.returned == example.relevant


def test_findings_table_has_four_columns_with_the_interval_below_the_gain():
    shown = findings_table(with_findings(diagnosis())).text
    assert re.findall("<th>(.*?)</th>", shown) == ["stage", "avoidable loss", "knob", "measured gain"]
    assert re.search(r"<td>[+-][\d.]+<br><small>\[[+-]?[\d.]+, [+-]?[\d.]+\]</small></td>", shown)
