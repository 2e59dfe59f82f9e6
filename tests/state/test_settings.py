import pytest

from shortlist.errors import ConfigError
from shortlist.state import MigrationPolicy, StateSettings


@pytest.mark.parametrize(
    "values",
    [
        {"storage": "fp8"},
        {"late": "ignore"},
        {"reorder_seconds": -1.0},
        {"max_history": 0},
        {"checkpoints": -1},
    ],
)
def test_settings_outside_of_their_ranges_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        StateSettings(**values)


@pytest.mark.parametrize("values", [{"recent_days": -1.0}, {"last_events": -1}, {"ridge": -1.0}])
def test_policies_outside_of_their_ranges_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        MigrationPolicy(**values)
