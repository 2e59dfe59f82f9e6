"""A log as a table, and a shorter log that still knows who was forgotten."""

import numpy as np
import pytest

from shortlist.errors import ArtifactError
from shortlist.state import EventLog, event_table, trim_log
from tests.state.live_world import SECOND, applied, bits, event, make_store

from .test_log import add
from .test_log_file import FIRST, read, written
from .test_log_file import SECOND as MORE


def test_table_has_all_events_of_users_who_were_not_forgotten(tmp_path):
    written(tmp_path, FIRST, MORE)
    with EventLog(tmp_path) as log:
        log.forget("b")
        table = event_table(log).to_pydict()
    assert table == {"user": ["a", "a", "ü"], "item": ["0", "2", "0"], "time": [5, 4, 9]}


def test_trimmed_log_gives_the_same_states_beside_a_bundle_that_has_the_other_events(tmp_path):
    """Users who were forgotten stay so, and all that they did later counts."""
    with EventLog(tmp_path / "old") as log:
        store = applied(make_store(log=log), [event("u0", 101, 5), event("u1", 101, 5)])
        store.forget("u1")
        more = event("u1", 102, 8), event("u0", 104, 25), event("new", 103, 30), event("u1", 105, 40)
        applied(store, more)
        refreshed = make_store(log=log, since_ms=20 * SECOND)
        expected = bits(refreshed), [refreshed.history(user) for user in ("u0", "u1", "new")]
    assert trim_log(tmp_path / "old", tmp_path / "new", 20 * SECOND) == 1
    with EventLog(tmp_path / "new") as log:
        found = make_store(log=log, since_ms=20 * SECOND)
        assert (bits(found), [found.history(user) for user in ("u0", "u1", "new")]) == expected
        assert found.row("u1") == -1
        assert log.size == 4
        assert found.apply([event("u0", 104, 25)], 10**12).duplicates == 1


def test_log_is_not_trimmed_into_another_one(tmp_path):
    for folder in ("old", "new"):
        written(tmp_path / folder, FIRST)
    with pytest.raises(ArtifactError, match="expected a folder without events, got 2"):
        trim_log(tmp_path / "old", tmp_path / "new", 0)
    assert read(tmp_path / "new") == sorted(FIRST, key=str)


def test_long_log_is_copied_in_blocks(tmp_path):
    with EventLog(tmp_path / "old") as log:
        add(log, [(user, 0, time, time) for user in range(70) for time in range(1000)])
    assert trim_log(tmp_path / "old", tmp_path / "new", 10) == 700
    with EventLog(tmp_path / "new") as log:
        assert np.unique(log.time.values).tolist() == list(range(10, 1000))
