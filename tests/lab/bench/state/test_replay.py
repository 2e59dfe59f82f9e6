from shortlist.lab.bench.state import replay
from shortlist.lab.bench.state.stream import Size
from shortlist.progress import silent

SMALL = Size(width=8, items=50, users=40, active=5, replayed=1500, distinct=1000)


def test_shuffled_and_repeated_log_gives_the_same_bytes():
    found = replay.replayed(SMALL, 0, silent)
    assert (found.different, found.deliveries, found.duplicates) == (0, 1500, 500)
    assert found.users > 10


def test_other_states_would_be_noticed(monkeypatch):
    """Users of the second delivery miss their last batch."""
    whole = replay.delivered

    def part(store, stream):
        short = stream if len(stream.users) == 1000 else stream.take(slice(0, 1200))
        return whole(store, short)

    monkeypatch.setattr(replay, "delivered", part)
    assert replay.replayed(SMALL, 0, silent).different > 0
