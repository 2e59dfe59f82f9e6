from dataclasses import replace
from xml.etree import ElementTree

from shortlist.diagnose.tree.diagnosis import TopNode
from shortlist.report.tree.drawing import draw_beam, draw_top


def test_drawings_are_valid_svg_with_every_node_in_the_beam(tree):
    for drawing in (draw_top(tree), draw_beam(tree)):
        ElementTree.fromstring(drawing)
    assert draw_top(tree).count("<rect") == len(tree.top)
    kept = sum(len(level.nodes) for level in tree.trace.levels)
    legend = 5
    assert draw_beam(tree).count("<rect") == kept + len(tree.trace.levels) + legend


def test_a_lost_item_has_one_cross_and_a_returned_one_none(tree):
    def crosses(*paths):
        drawing = draw_beam(replace(tree, trace=replace(tree.trace, paths=paths)))
        return drawing.count("m0 -10") // 2 - 1

    path = tree.trace.paths[0]
    kept = tuple(replace(node, kept=True) for node in path.nodes)
    lost = tuple(replace(node, kept=node.level < 4) for node in path.nodes)
    assert crosses(replace(path, nodes=kept)) == 0
    assert crosses(replace(path, nodes=lost)) == 1
    assert crosses() == 0


def test_a_tree_with_many_children_says_how_many_boxes_are_missing(tree):
    top = (TopNode(0, 0, 64, "a", 1.0), *(TopNode(1, node, 1, "a", 1.0) for node in range(9)))
    levels = (replace(tree.levels[0], level=1, nodes=64),)
    assert "and 55 more" in draw_top(replace(tree, branch=64, height=1, levels=levels, top=top))
