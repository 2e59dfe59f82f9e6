"""The grids of one tiny world, and what its stages are trained on."""

import pytest
import torch

from shortlist.lab.experiments.full_stage.arms import STAGES
from shortlist.lab.experiments.full_stage.grids import grids_of
from shortlist.lab.experiments.full_stage.sizes import SIZES
from shortlist.lab.experiments.full_stage.stage_data import REQUESTS, StageData


@pytest.fixture(scope="session")
def grids_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("grids")


@pytest.fixture(scope="session")
def grids(grids_folder):
    return grids_of("tiny", 0, grids_folder, "cpu")


@pytest.fixture(scope="session")
def stages(grids):
    """The data of both stages by name."""
    device = torch.device("cpu")
    return {one: StageData.of(grids, SIZES["tiny"], one, REQUESTS, 0, device) for one in STAGES}
