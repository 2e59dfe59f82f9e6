import math

import numpy as np
import pytest

from shortlist.state.table.records import ACTIVE, record_type
from shortlist.state.table.steps import StepNorms


def test_mean_norm_is_that_of_single_steps_by_group():
    before, after = np.zeros(4, record_type(2, "fp32")), np.zeros(4, record_type(2, "fp32"))
    after["vector"] = [[3, 4], [6, 8], [100, 0], [0, 1]]
    after["flags"] = [0, 0, 0, ACTIVE]
    norms = StepNorms()
    assert math.isnan(norms.mean(False))
    norms.add(before, after, np.array([0, 1, 2, 4, 5]))  # the third user has two events
    assert norms.mean(False) == pytest.approx(7.5)
    assert norms.mean(True) == pytest.approx(1.0)
