"""The grid of systems."""

from shortlist.simulate.bandit.grid import grid_systems, subsets


def test_subsets_are_whole_for_the_widths_of_the_grid():
    for width in (10, 20, 40):
        assert subsets(width) == tuple(int(width / ratio) for ratio in (1, 1.25, 2, 2.5, 5, 10))


def test_grid_has_every_combination_once():
    systems = grid_systems(10, (2, 5))
    assert len(systems) == len(set(systems)) == 2 * 6 * 4 + 6 * 2
    assert {one.name for one in systems} == {"U+U", "U+G", "G+U", "G+G", "U", "G"}
