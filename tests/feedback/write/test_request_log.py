"""Requests of a recommender in the log: ids of all processes differ, histories have the type of the items."""

import pyarrow.parquet as pq

from shortlist.feedback.reader import LogReader
from shortlist.feedback.write.request_ids import RequestIds
from shortlist.feedback.write.request_log import LogTo, RequestLog
from shortlist.pipeline import Request
from tests.feedback.logs import START
from tests.serve.small_service import recommender_of


def test_ids_increase_also_when_the_clock_goes_backwards():
    ids = RequestIds(3)
    found = [ids.new(START - (number > 50) * 10_000) for number in range(10_000)]
    assert found == sorted(set(found))


def test_history_with_ids_of_another_type_is_logged_as_ids_of_the_catalogue(tmp_path):
    recommender = recommender_of()
    log = RequestLog(LogTo(str(tmp_path)), recommender)
    trace = recommender.recommend(Request(user="u1")).trace
    assert log.offer(trace, recommender.pipeline, ["u1"], [["i1", 7]])
    assert log.offer(trace, recommender.pipeline, ["u1"], [None], wait=True)
    log.close()
    assert log.counts.written == 2
    (path,) = tmp_path.glob("table=requests/*/*/*.parquet")
    assert pq.read_table(path)["context"].to_pylist() == [{"history": ["i1", "7"]}, None]
    assert sum(map(len, LogReader(tmp_path).requests())) == 2
