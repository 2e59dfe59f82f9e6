"""Step sizes of states."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, PLAIN
from shortlist.lab.experiments.two_time_scale.fig4 import two_time_scale_fig4


@pytest.fixture
def result(made_up):
    plan = Plan({place_of(TINY): (ANCHORED, PLAIN)}, (0, 1))
    return two_time_scale_fig4(None, "quick", (0, 1), cache_file=made_up(plan, {}))


def test_every_group_has_its_steps(result):
    points = {(one.method, one.metric, one.x): one.mean for one in result.rows}
    assert points[f"{ANCHORED}, active on world-tiny", "step norm", 1.0] == pytest.approx(0.1)
    assert points[f"{ANCHORED}, inactive on world-tiny", "step norm", 2.0] == pytest.approx(0.2)
    assert points[f"{PLAIN}, active, as new on world-tiny", "total variation", 1.0] == pytest.approx(0.3)


def test_inactive_users_must_move_further_in_every_gauge(result):
    claims = {one.id: one for one in result.claims}
    norm = claims[f"{ANCHORED}: inactive users move further than active ones, step norm, on world-tiny"]
    assert norm.holds
    assert norm.estimate == pytest.approx(2)
    variation = claims[
        f"{ANCHORED}: inactive users move further than active ones, total variation, on world-tiny"
    ]
    assert not variation.holds
