"""A million items in 8 GiB."""

from shortlist.lab.bench.tree_job import life

GIB = 2**30


def test_a_million_items_fit_into_eight_gib_and_all_are_found():
    measured = life(1_000_000, 10_000, seed=0, width=4)
    assert measured["same_answer"] == 1  # built, saved, loaded and searched
    assert measured["survivors_found"] == 1  # after 10,000 insertions and 10,000 deletions
    assert measured["peak_bytes"] < 8 * GIB
