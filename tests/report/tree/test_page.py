import json
import re

import pytest

from shortlist.report import tree_page, tree_section


@pytest.fixture(scope="module")
def told(tree):
    return {"about": {"name": "oak", "data": "world", "seed": 0}, "trees": {"tree": tree}}


def test_the_page_needs_no_network_and_shows_every_part(told):
    page = tree_page(told)
    own = r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*"
    assert "http://" not in re.sub(own, "", page)
    assert "<script" not in page
    assert [heading.split(":")[0] for heading in re.findall(r"<h2>(.*?)</h2>", page)] == [
        "In short",
        "The top of the tree",
        "One search, level by level",
        "Where held-out items are lost",
        "Would a wider beam help?",
        "Level by level",
        "Does everybody get the same?",
        "How it was made",
    ]
    assert page.count("<svg") == 5


def test_every_term_is_explained(told):
    page = tree_page(told)
    for term in ("Wrong order:", "Label:", "KL:", "Purity:", "this set is the beam", "A held-out item,"):
        assert page.count(term) == 1


def test_the_numbers_on_the_page_are_those_of_the_diagnosis(told, tree):
    page = tree_page(told)
    for name in ("wanted", "found", "search"):
        assert f">{tree['account'][name]:,}<" in page
    assert f"{tree['regret']:.1%} of the best 5" in page
    for level in tree["levels"]:
        assert f"{level['top_kept']:.1%}" in page


def test_lost_and_found_items_are_told_in_words(told, tree):
    trail = {**tree["walk"]["trails"][0], "title": "Oak", "found": False, "lost_at": 5, "among_best": True}
    kinds = [
        (trail, "was lost at level 5: its node scored"),
        ({**trail, "among_best": False}, "not among the best 5 anyway"),
        ({**trail, "lost_at": tree["height"]}, "came as far as the leaves"),
        ({**trail, "found": True, "lost_at": None}, "was found"),
    ]
    for one, sentence in kinds:
        walk = {**tree["walk"], "trails": [one]}
        assert sentence in tree_page({**told, "trees": {"tree": {**tree, "walk": walk}}})


def test_titles_and_categories_cannot_smuggle_markup(told, tree):
    evil = "<img src=x onerror=alert(1)>"
    boxes = [{**box, "category": evil} for box in tree["sketch"]]
    walk = {
        **tree["walk"],
        "trails": [{**one, "title": evil} for one in tree["walk"]["trails"]],
        "user": evil,
    }
    findings = [{"what": evil, "knob": evil, "share": None}]
    bad = {**tree, "sketch": boxes, "walk": walk, "findings": findings}
    page = tree_page({**told, "trees": {"tree": bad}})
    assert "<img" not in page
    assert "&lt;img" in page


def test_the_same_numbers_give_the_same_page(told):
    assert tree_page(told) == tree_page(json.loads(json.dumps(told)))


def test_no_categories_and_no_trails_are_no_trouble(told, tree):
    bare = {
        **tree,
        "categories": 1,
        "walk": {**tree["walk"], "trails": []},
        "sketch": [{**box, "category": ""} for box in tree["sketch"]],
        "levels": [
            {**one, "violations": None, "label": None, "label_one_step": None} for one in tree["levels"]
        ],
    }
    page = tree_page({**told, "trees": {"tree": bare}})
    assert "no category" in page


def test_two_trees_are_told_apart(told, tree):
    page = tree_page({**told, "trees": {"oak": tree, "elm": tree}})
    assert "In short (oak)" in page
    assert "In short (elm)" in page


def test_the_section_for_a_run_shows_the_tree_and_one_search(tree):
    section = tree_section("tree", tree)
    assert section.title == "The tree 'tree'"
    assert sum("<svg" in part.text for part in section.parts if not isinstance(part, str)) == 3
