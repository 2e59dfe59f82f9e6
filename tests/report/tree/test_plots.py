from xml.etree import ElementTree

from shortlist.report.tree.plots import panels, reach, widths


def test_every_plot_is_a_whole_drawing_and_the_same_for_the_same_numbers(tree):
    drawn = [reach(tree["levels"], 5), panels(tree["levels"], True), widths(tree["widths"], 8, 5)]
    for drawing in drawn:
        ElementTree.fromstring(drawing)
    assert drawn == [reach(tree["levels"], 5), panels(tree["levels"], True), widths(tree["widths"], 8, 5)]


def test_other_numbers_give_another_drawing(tree):
    other = [{**one, "top_kept": one["top_kept"] / 2, "violations": 0.4} for one in tree["levels"]]
    assert reach(other, 5) != reach(tree["levels"], 5)
    assert panels(other, True) != panels(tree["levels"], True)
    assert panels(tree["levels"], False) != panels(tree["levels"], True)


def test_levels_without_a_number_leave_a_gap(tree):
    bare = [{**one, "violations": None, "label": None, "label_one_step": None} for one in tree["levels"]]
    ElementTree.fromstring(panels(bare, True))
