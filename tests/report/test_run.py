import re

import pytest

from shortlist.cli.evaluate import evaluation
from shortlist.progress import silent
from shortlist.report import run_page


@pytest.fixture(scope="module")
def told(world, recommender):
    return evaluation(recommender, world, "test", 0, silent)


def test_the_page_needs_no_network_and_shows_every_part(told):
    page = run_page(told)
    assert "http://" not in re.sub(
        r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*", "", page
    )
    assert "<script" not in page
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert [heading.split(":")[0] for heading in headings] == [
        "In short",
        "How good it is",
        "Which stage lost what",
        "Who finds it",
        "For whom",
        "One request",
        "By which rules",
        "How it was made",
    ]
    assert page.count("<svg") == 3


def test_the_numbers_on_the_page_are_those_of_the_evaluation(told):
    page = run_page(told)
    assert f"{told['metrics']['pipeline']['metrics']['recall@20']['mean']:.4f}" in page
    for stage in told["stages"]["stages"]:
        assert f">{stage['lost']:,}<" in page


def test_every_yardstick_stands_beside_the_pipeline(told):
    page = run_page(told)
    for who in ("popularity", "popular in window", "last click"):
        assert f"<th>{who}</th>" in page
        assert f"{told['metrics'][who]['metrics']['ndcg@20']['mean']:.4f}" in page
        assert f"{told['differences'][who]['recall@20']['difference']:.4f}" in page
    assert told["protocol"]["ties"] in page


def test_titles_cannot_smuggle_markup(told):
    evil = {**told["example"]["items"][0], "title": "<img src=x onerror=alert(1)>"}
    page = run_page({**told, "example": {**told["example"], "items": [evil]}})
    assert "<img" not in page
    assert "&lt;img" in page


def test_the_same_numbers_give_the_same_page(told):
    assert run_page(told) == run_page(told)


def test_a_pipeline_that_is_not_clearly_better_is_not_called_better(told):
    for low in (-0.01, 1e-18):  # the second is 0 but for rounding
        unsure = {**told["difference"]["recall@20"], "low": low}
        page = run_page({**told, "difference": {**told["difference"], "recall@20": unsure}})
        assert "does not clearly beat popularity" in page
