from xml.etree import ElementTree

from shortlist.report.tree.drawing import beam, sketch


def test_the_drawings_are_whole_and_show_every_kept_node(tree):
    for drawing in (sketch(tree), beam(tree)):
        ElementTree.fromstring(drawing)
    boxes = len(tree["sketch"])
    assert sketch(tree).count("<rect") == boxes
    kept = sum(len(step["nodes"]) for step in tree["walk"]["steps"])
    legend = 5
    assert beam(tree).count("<rect") == kept + len(tree["walk"]["steps"]) + legend


def test_a_lost_item_has_one_cross_and_a_found_one_none(tree):
    def crosses(trails):
        return beam({**tree, "walk": {**tree["walk"], "trails": trails}}).count("m0 -10") // 2 - 1

    passings = tree["walk"]["trails"][0]["passings"]
    kept = [{**one, "kept": True} for one in passings]
    lost = [{**one, "kept": one["level"] < 4} for one in passings]
    trail = tree["walk"]["trails"][0]
    assert crosses([{**trail, "passings": kept}]) == 0
    assert crosses([{**trail, "passings": lost}]) == 1
    assert crosses([]) == 0


def test_a_tree_with_many_branches_says_how_many_boxes_are_missing(tree):
    wide = {**tree, "branch": 64, "height": 1, "levels": [{**tree["levels"][0], "level": 1, "nodes": 64}]}
    wide["sketch"] = [{"level": 0, "node": 0, "items": 64, "category": "a", "share": 1.0}] + [
        {"level": 1, "node": node, "items": 1, "category": "a", "share": 1.0} for node in range(9)
    ]
    assert "and 55 more" in sketch(wide)
