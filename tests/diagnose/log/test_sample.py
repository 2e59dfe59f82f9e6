import numpy as np

from shortlist.diagnose.log.sample import RequestSample
from tests.diagnose.log.records import funnel_record

RECORD = funnel_record(40)


def parts(record, size):
    return [record.take(np.arange(at, min(at + size, len(record)))) for at in range(0, len(record), size)]


def sampled(most, seed=0, size=7, **options):
    sample = RequestSample(most, seed, **options)
    for part in parts(RECORD, size):
        sample.add(part)
    return sample.requests()


def test_small_log_is_kept_whole_and_in_order():
    found = sampled(100)
    assert found.request_id.tolist() == RECORD.request_id.tolist()
    assert np.array_equal(found.item_id, RECORD.item_id)


def test_sample_has_whole_requests_in_the_order_of_the_log():
    found = sampled(9)
    assert len(found) == 9
    assert (np.diff(found.request_id) > 0).all()
    assert (found.counts == 80).all()
    assert found.request_id.tolist() == sampled(9).request_id.tolist()


def test_memory_is_bounded_by_twice_the_sample_and_by_its_candidates():
    sample = RequestSample(5)
    for part in parts(RECORD, 3):
        sample.add(part)
        assert sum(len(one) for one, _ in sample.parts) <= 10
    assert len(sampled(30, rows=80 * 6)) == 6


def test_every_request_is_sampled_equally_often():
    counts = np.zeros(len(RECORD))
    for seed in range(400):
        counts[sampled(10, seed).request_id] += 1
    assert abs(counts / 400 - 0.25).max() < 5 * (0.25 * 0.75 / 400) ** 0.5


def test_sample_of_no_requests_is_none():
    assert RequestSample().requests() is None
