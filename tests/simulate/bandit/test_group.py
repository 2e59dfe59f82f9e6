"""Systems as tensors on a GPU."""

import numpy as np
import pytest
import torch

from shortlist.simulate.bandit import BanditSettings, System, simulate
from shortlist.simulate.bandit.counterexamples import BANDIT, CounterexampleWorld
from shortlist.train.pools import WeightRule

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@GPU
@pytest.mark.parametrize("rule", ["all", "own_pool"])
def test_a_gpu_plays_what_a_processor_plays(rule):
    world = CounterexampleWorld(BANDIT["printed, own should work"])
    count = world.example.pools.n_nominators
    systems = [System(n, count, 2, r) for r in "UGO" for n in "UG"]
    found = [
        simulate(
            world,
            systems,
            seeds=range(6),
            rounds=120,
            settings=BanditSettings(rule=WeightRule(rule), device=device, record_every=40),
            pools=world.pools,
            masks=world.masks(),
            keep_actions=True,
            compiled=False,
        )
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_array_equal(found[0].actions, found[1].actions)
    np.testing.assert_allclose(found[0].total, found[1].total, atol=1e-10)
