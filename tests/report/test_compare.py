import re

import pytest

from shortlist.artifact.store import Lineage
from shortlist.cli.compare import comparison
from shortlist.progress import silent
from shortlist.report.compare import compare_drawing, compare_page


@pytest.fixture(scope="module")
def told(world, recommender):
    systems = {
        "one <b>": (recommender, Lineage(package="1")),
        "two": (recommender, Lineage(seed=3, package="1")),
    }
    return comparison(systems, world, "test", "ndcg@10", (10, 20), 0, silent)


def test_the_page_needs_no_network_and_shows_every_part(told):
    page = compare_page(told)
    bare = re.sub(
        r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*", "", page
    )
    assert "http://" not in bare
    assert "<script" not in page
    headings = [heading.split(":")[0] for heading in re.findall(r"<h2>(.*?)</h2>", page)]
    assert headings == [
        "In short",
        "What it is worth, and what it costs",
        "How good they are",
        "User by user",
        "How long they take",
        "By which rules",
        "The systems",
    ]
    assert page.count("<svg") == 1


def test_numbers_warnings_and_trainings_are_on_the_page(told):
    page = compare_page(told)
    for one in (*told["systems"].values(), *told["yardsticks"].values()):
        assert f"{one['metrics']['ndcg@10']['mean']:.4f}" in page
        assert f"{one['metrics']['recall@20']['mean']:.4f}" in page
    for word in (
        "What speaks against trusting it",
        "different seeds",
        "did not converge",
        "towers 3 of 3 epochs",
    ):
        assert word in page
    assert f"all {len(told['comparisons'])} comparisons" in page


def test_names_cannot_smuggle_markup(told):
    page = compare_page(told)
    assert "one <b>" not in page
    assert "one &lt;b&gt;" in page


def test_no_warnings_leave_no_heading_for_them(told):
    assert "What speaks against" not in compare_page({**told, "warnings": []})


def test_the_drawing_alone_is_that_of_the_page(told):
    assert compare_drawing(told) in compare_page(told)
    assert compare_page(told) == compare_page(told)
