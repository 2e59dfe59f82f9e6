"""A tiny world with all stage models."""

import pytest
import torch

from shortlist.simulate.full_stage import PAPER_SHARE, StageModelConfig, make_short_video
from shortlist.simulate.full_stage.closed_loop import LoopSettings, LoopWorld, loop_arrays


@pytest.fixture(scope="session")
def arrays():
    config = StageModelConfig((8,), (8,), 4, 1e-2, 512, 2)
    return loop_arrays(make_short_video("tiny", 3, PAPER_SHARE), config, 3, "cpu")


@pytest.fixture(scope="session")
def world(arrays):
    return LoopWorld.of(arrays, 3, torch.device("cpu"))


@pytest.fixture(scope="session")
def settings():
    return LoopSettings((60, 30, 12, 4), explore=0.05, rounds=2, warm=1, window=2)
