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
        "All metrics",
        "Stage losses",
        "Nominators",
        "The funnel as one system",
        "Segments of users",
        "One request",
        "Protocol",
        "About the bundle",
    ]
    assert page.count("<svg") == 4  # the funnel for wide and narrow screens, and two folded plots


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


def test_page_opens_with_the_funnel_five_metrics_and_folds_the_rest(found):
    first, *rest = run_page(found).split("<h2>")[1:]
    assert first.index("<svg") < first.index(found.headline.sentence.split(" [")[0]) < first.index("<table")
    best = found.best_baseline
    for metric in ("recall@20", "ndcg@20", "precision@20", "hit_rate@20", "mrr@20"):
        assert f"<td>{metric}</td>" in first
        assert f"{found.differences[best][metric].difference:.4f}" in first
    assert all(part.split("</h2>")[1].startswith("</summary>") for part in rest)


def test_page_follows_the_chosen_metrics_and_cut_offs(world, recommender):
    chosen = evaluate(recommender, world, metrics="ndcg,mrr", at="5,7")
    page = run_page(chosen)
    assert chosen.headline.metric == "ndcg@7"
    assert set(chosen.metrics["pipeline"].metrics) == {"ndcg@5", "ndcg@7", "mrr@5", "mrr@7"}
    assert "<td>mrr@7</td>" in page
    assert "recall@" not in page
    assert "@20" not in page


def test_every_table_scrolls_in_its_own_box(found):
    page = run_page(found)
    assert page.count("<table>") == page.count('<div class="scroll"><table>')
