"""Warming up a device."""

import torch

from shortlist.lab.experiments.two_time_scale.cells.warm_up import warm_up


def test_a_device_is_warmed_once():
    state = torch.get_rng_state()
    warm_up(torch.device("cpu"))
    assert warm_up.cache_info().currsize == 1
    torch.set_rng_state(state)
