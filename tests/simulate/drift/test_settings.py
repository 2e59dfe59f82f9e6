"""Settings of drifting worlds."""

import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.drift import SIZES, DriftSettings


def test_the_law_of_the_number_of_events_is_a_power_law_on_its_range():
    law = DriftSettings(least=8, most=700, alpha=1.6).law
    assert len(law) == 693
    assert law.sum() == pytest.approx(1)
    assert law[8] / law[0] == pytest.approx(2**-1.6)  # T = 16 against T = 8


@pytest.mark.parametrize(("size", "events"), [("unit", 1.57e5), ("tenth", 1e6), ("full", 1e7)])
def test_sizes_have_the_number_of_events_of_the_plan(size, events):
    settings = SIZES[size]
    assert settings.users * settings.mean_events == pytest.approx(events, rel=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": 0}, "expected users from 1"),
        ({"least": 9, "most": 8}, "expected 1 <= least <= most, got 9 and 8"),
        ({"spread": float("nan")}, "expected a finite spread"),
        ({"rho": 1.1}, "expected rho from 0 to 1"),
        ({"newcomers": -0.1}, "expected newcomers from 0 to 1"),
    ],
)
def test_a_bad_setting_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        DriftSettings(**changes)
