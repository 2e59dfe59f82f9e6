import re
from dataclasses import replace

from shortlist.diagnose.tree.diagnosis import TreeFinding
from shortlist.report.page import page
from shortlist.report.tree.page import tree_section, tree_sections, trees_sections


def tree_page(tree):
    return page("Tree", tree_sections(tree))


def with_paths(tree, *paths):
    return replace(tree, trace=replace(tree.trace, paths=paths))


def test_the_page_needs_no_network_and_has_every_section(tree):
    html = tree_page(tree)
    own = r"http://www\.w3\.org[^\"]*|http://purl\.org[^\"]*|http://creativecommons\.org[^\"]*"
    assert "http://" not in re.sub(own, "", html)
    assert "<script" not in html
    assert [heading.split(":")[0] for heading in re.findall(r"<h2>(.*?)</h2>", html)] == [
        "Summary",
        "Top of the tree",
        "One beam search",
        "Where relevant items are lost",
        "Would a wider beam help?",
        "Level by level",
        "Do all users get the same items?",
    ]
    assert html.count("<svg") == 5


def test_every_term_is_explained_once(tree):
    html = tree_page(tree)
    for term in ("Violations:", "Label:", "KL:", "Purity:", "this set is the beam", "A relevant item,"):
        assert html.count(term) == 1


def test_the_numbers_on_the_page_are_those_of_the_diagnosis(tree):
    html = tree_page(tree)
    for count in (tree.losses.relevant, tree.losses.returned, tree.losses.beam):
        assert f">{count:,}<" in html
    assert f"{tree.regret:.1%} of its top 5" in html
    for level in tree.levels:
        assert f"{level.top_kept:.1%}" in html


def test_findings_are_on_the_page(tree):
    html = tree_page(replace(tree, findings=(TreeFinding("The beam loses much.", "beam = 16"),)))
    assert "<strong>The beam loses much.</strong><br>beam = 16" in html


def test_lost_and_returned_items_are_described(tree):
    path = replace(tree.trace.paths[0], title="Oak", returned=False, lost_at=5, in_top_k=True)
    kinds = [
        (path, "was lost at level 5: its ancestor scored"),
        (replace(path, in_top_k=False), "Exhaustive search does not return it either"),
        (replace(path, lost_at=tree.height), "was reached at the leaves"),
        (replace(path, returned=True, lost_at=None), "was returned"),
    ]
    for one, sentence in kinds:
        assert sentence in tree_page(with_paths(tree, one))


def test_ids_titles_and_categories_are_escaped(tree):
    evil = "<img src=x onerror=alert(1)>"
    bad = with_paths(tree, *(replace(path, title=evil) for path in tree.trace.paths))
    bad = replace(
        bad,
        trace=replace(bad.trace, user=evil),
        top=tuple(replace(node, category=evil) for node in tree.top),
        findings=(TreeFinding(evil, evil),),
    )
    html = tree_page(bad)
    assert "<img" not in html
    assert "&lt;img" in html


def test_the_same_diagnosis_gives_the_same_page(tree):
    assert tree_page(tree) == tree_page(replace(tree))


def test_a_tree_without_categories_and_paths_has_a_page(tree):
    bare = replace(
        with_paths(tree),
        categories=1,
        top=tuple(replace(node, category="") for node in tree.top),
        levels=tuple(replace(one, violations=None, label=None, label_one_step=None) for one in tree.levels),
    )
    assert "no category" in tree_page(bare)


def test_sections_of_several_trees_have_their_names(tree):
    titles = [section.title for section in trees_sections({"oak": tree, "elm": tree})]
    assert "Tree 'oak': summary" in titles
    assert "Tree 'elm': level by level" in titles
    assert trees_sections({}) == []


def test_the_section_of_an_evaluation_has_the_tree_and_one_search(tree):
    section = tree_section("tree", tree)
    assert section.title == "Tree 'tree'"
    assert sum("<svg" in part.text for part in section.parts if not isinstance(part, str)) == 3
