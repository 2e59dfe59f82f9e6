import re
from dataclasses import replace

import pytest

from shortlist.evaluate import compare
from shortlist.report.compare import compare_drawing, compare_page


@pytest.fixture(scope="module")
def found(world, recommender):
    other = replace(recommender, about=replace(recommender.about, seed=3))
    return compare({"one <b>": recommender, "two": other}, world, metric="ndcg@10")


def test_page_needs_no_network_and_has_every_section(found):
    page = compare_page(found)
    bare = re.sub(
        r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*", "", page
    )
    assert "http://" not in bare
    assert "<script" not in page
    headings = [heading.split(":")[0] for heading in re.findall(r"<h2>(.*?)</h2>", page)]
    assert headings == [
        "Quality and latency",
        "Summary",
        "Metrics",
        "Paired tests",
        "Latency",
        "Protocol",
        "Systems",
    ]
    assert page.count("<svg") == 1


def test_page_shows_metrics_warnings_and_training_histories(found):
    page = compare_page(found)
    for own in found.metrics.values():
        assert f"{own.metrics['ndcg@10'].mean:.4f}" in page
        assert f"{own.metrics['recall@20'].mean:.4f}" in page
    for text in ("Reasons for caution", "different seeds", "did not converge", "towers 3 of 3 epochs"):
        assert text in page
    assert f"all {len(found.pairs)} comparisons" in page
    for head in ("p, Holm", "paired t-test", "Welch&#x27;s test"):
        assert f"{head}</th>" in page


def test_names_are_escaped(found):
    page = compare_page(found)
    assert "one <b>" not in page
    assert "one &lt;b&gt;" in page


def test_page_without_warnings_has_no_heading_for_them(found):
    assert "Reasons for caution" not in compare_page(replace(found, warnings=()))


def test_drawing_alone_equals_that_of_the_page(found):
    assert compare_drawing(found) in compare_page(found)
    assert compare_page(found) == compare_page(found)


def test_one_system_and_one_comparison_are_not_plural(found):
    name = next(iter(found.systems))
    page = compare_page(replace(found, systems={name: found.systems[name]}, pairs=found.pairs[:1]))
    assert f"<title>1 system on {found.data}</title>" in page
    assert "comparisons of this table" not in page
