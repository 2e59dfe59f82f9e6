from dataclasses import replace
from xml.etree import ElementTree

from shortlist.report.tree.plots import level_plots, survival_plot, width_plot


def test_every_plot_is_valid_svg_and_deterministic(tree):
    def drawn():
        return survival_plot(tree.levels, 5), level_plots(tree.levels, True), width_plot(tree.widths, 8, 5)

    for drawing in drawn():
        ElementTree.fromstring(drawing)
    assert drawn() == drawn()


def test_other_numbers_give_another_plot(tree):
    other = [replace(one, top_kept=one.top_kept / 2, violations=0.4) for one in tree.levels]
    assert survival_plot(other, 5) != survival_plot(tree.levels, 5)
    assert level_plots(other, True) != level_plots(tree.levels, True)
    assert level_plots(tree.levels, False) != level_plots(tree.levels, True)


def test_levels_without_a_number_leave_a_gap(tree):
    bare = [replace(one, violations=None, label=None, label_one_step=None) for one in tree.levels]
    ElementTree.fromstring(level_plots(bare, True))
