"""The counterexamples, small."""

from shortlist.lab.experiments import components_prop2
from tests.lab.experiments.results import check_result, points


def test_the_repaired_pair_works_and_the_printed_one_does_not():
    found = components_prop2(None, "quick", range(8))
    check_result(found, "components-prop2")
    holds = {one.id: one.holds for one in found.claims}
    assert holds["repaired, own works, G"]
    assert holds["repaired, all works, G"]
    assert not holds["printed, own should work, G"]
    assert holds["supervised: own works"]
    assert holds["supervised: all works"]
    assert not holds["supervised, all works: own_pool is no better than uniform"]
    sweep = points(found, "repaired, own works", "nominator regret per round, mix")
    assert sweep[0.0] < 0.02
    assert sweep[1.0] > 0.2
