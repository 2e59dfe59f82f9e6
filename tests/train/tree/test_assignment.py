"""Who stands where below a node, by every way there is."""

import numpy as np
import pytest

from shortlist.index.tree.assign import balanced_assign
from shortlist.train.tree.assignment import WAYS, Places


def places(seed=0, groups=6, width=4, room=5):
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), width * room)
    counts = np.ceil(random.pareto(1.0, len(group)) * 3).astype(int) - (random.random(len(group)) < 0.1)
    wished = (random.normal(size=(len(group), width)) * counts[:, None]).astype(np.float32)
    usual = np.concatenate([random.permutation(np.repeat(np.arange(width), room)) for _ in range(groups)])
    return Places(wished, np.full((groups, width), room), group, counts), usual


@pytest.mark.parametrize("seed", range(5))
def test_every_way_fills_all_places_and_each_group_takes_the_better(seed):
    those, usual = places(seed)
    found = {way: those.found(way, usual) for way in WAYS}
    for chosen, _ in found.values():
        assert (np.bincount(those.group * 4 + chosen) == 5).all()
    totals = {way: those.totals(chosen, those.wished) for way, (chosen, _) in found.items()}
    assert (totals["better"] >= np.maximum(totals["change"], totals["serve"])).all()
    assert (totals["change"] >= totals["stay"]).all()
    assert found["better"][1] == (totals["better"] > totals["change"]).sum()


def test_to_stay_is_to_stay_and_to_be_served_is_deferred_acceptance():
    those, usual = places()
    assert those.found("stay", usual)[0] is usual
    served = balanced_assign(those.wished, those.room, those.counts, those.group, those.counts > 0)
    np.testing.assert_array_equal(those.found("serve", usual)[0], served)
