"""The softmax over all items against plain implementations."""

from shortlist.lab.bench.softmax import Size, bench_softmax


def test_both_sides_agree_and_every_ratio_is_a_claim():
    small = Size(items=40, width=4, events=30, users=3, longest=12, sampled=12)
    found = bench_softmax(size=small, repeats=2, seconds=0.01)
    names = {"softmax_plain_over_ours", "offers_plain_over_ours", "fold_in_plain_over_ours"}
    assert {one.id for one in found.claims} == names
    assert {one.method for one in found.rows if one.metric == "ratio"} == names
    assert all(one.mean > 0 for one in found.rows)
