"""A million items on a laptop."""

from shortlist.lab.bench.tree_job import life

GIB = 2**30


def test_a_tree_of_a_million_items_lives_within_eight_gib_and_loses_nothing():
    told = life(1_000_000, 10_000, seed=0, width=4)
    assert told["same_answer"] == 1  # built, saved, loaded and searched
    assert told["survivors_found"] == 1  # 10,000 came, 10,000 went
    assert told["peak_bytes"] < 8 * GIB
