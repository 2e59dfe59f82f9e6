import re
from dataclasses import replace

import pytest

from shortlist.evaluate import evaluate
from shortlist.report.run import run_page


@pytest.fixture(scope="module")
def found(world, recommender):
    return evaluate(recommender, world)


def test_page_needs_no_network_and_has_every_section(found):
    page = run_page(found)
    assert "http://" not in re.sub(
        r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*", "", page
    )
    assert "<script" not in page
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert [heading.split(":")[0] for heading in headings] == [
        "Summary",
        "Metrics",
        "Stage losses",
        "Nominators",
        "Segments of users",
        "One request",
        "Protocol",
        "About the bundle",
    ]
    assert page.count("<svg") == 3


def test_page_shows_the_numbers_of_the_evaluation(found):
    page = run_page(found)
    assert f"{found.mean('pipeline'):.4f}" in page
    for stage in found.losses.stages:
        assert f">{stage.lost:,}<" in page
    for warning in found.warnings:
        assert warning.replace("'", "&#x27;") in page


def test_page_shows_every_baseline(found):
    page = run_page(found)
    for name in ("popularity", "popular in window", "last click"):
        assert f"<th>{name}</th>" in page
        assert f"{found.mean(name, 'ndcg@20'):.4f}" in page
        assert f"{found.differences[name]['recall@20'].difference:.4f}" in page
    assert found.protocol.ties in page


def test_titles_are_escaped(found):
    evil = replace(found.example.items[0], title="<img src=x onerror=alert(1)>")
    page = run_page(replace(found, example=replace(found.example, items=(evil,))))
    assert "<img" not in page
    assert "&lt;img" in page


def test_same_evaluation_gives_the_same_page(found):
    assert run_page(found) == run_page(found)


def test_pipeline_that_is_not_significantly_better_is_not_called_better(found):
    for low in (-0.01, 1e-18):  # the second is 0 but for rounding
        test = replace(found.differences["popularity"]["recall@20"], low=low)
        tests = {**found.differences["popularity"], "recall@20": test}
        page = run_page(replace(found, differences={**found.differences, "popularity": tests}))
        assert "does not significantly beat popularity" in page
