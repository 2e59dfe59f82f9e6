import numpy as np

from shortlist.lab.bench.state.stream import NOW_MS, Size, empty_store, random_model, random_stream

SMALL = Size(width=8, items=50, users=40, active=5)


def test_stream_is_in_the_order_of_time_with_skewed_users():
    stream = random_stream(SMALL, 2000, 0)
    assert (np.diff(stream.times) > 0).all()
    assert stream.times[-1] < NOW_MS
    assert len(set(stream.ids.tolist())) == 2000
    counts = np.sort(np.bincount(stream.users, minlength=40))[::-1]
    assert counts[0] > 5 * np.median(counts)
    events = stream.take(np.arange(3)).events()
    assert [one.user_id for one in events] == stream.users[:3].tolist()
    assert random_stream(SMALL, 2000, 0).items.tolist() == stream.items.tolist()


def test_first_users_are_active_in_the_model():
    model, stream = random_model(SMALL, 0), random_stream(SMALL, 500, 0)
    store = empty_store(model, SMALL, "fp16")
    assert store.apply(stream.events(), NOW_MS).applied == 500
    report = store.report(NOW_MS)
    assert report.active == (np.unique(stream.users) < 5).sum()
