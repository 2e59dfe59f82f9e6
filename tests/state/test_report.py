import pytest

from shortlist.state.report import EventCounts, MemoryReport


def test_bytes_are_shared_among_users_and_events():
    memory = MemoryReport(10, 100, 8, 80, 20, 500, 100, 7)
    assert memory.total == 707
    assert memory.bytes_per_user == pytest.approx(10)
    assert memory.bytes_per_event == pytest.approx(6)
    assert MemoryReport(0, 0, 8, 80, 20, 0, 0, 0).bytes_per_user == 100


def test_offered_events_are_applied_repeated_or_rejected():
    rejected = {"bad_ids": 3, "bad_times": 1}
    assert EventCounts(applied=5, duplicates=2, late=1, disordered=1, rejected=rejected).offered == 11
