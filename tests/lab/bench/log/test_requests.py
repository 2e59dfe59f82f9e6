from shortlist.data import Query
from shortlist.feedback.write.from_trace import from_trace
from shortlist.lab.bench.log.requests import BLOCK, CUTS, NOMINATED, bench_log, funnel
from tests.feedback.logs import meta_of
from tests.worlds import run_checked


def test_funnel_has_the_claimed_shape():
    trace = run_checked(funnel(0), Query.of([[]])).trace
    record = from_trace(trace, meta_of(trace))
    assert record.n_out.tolist() == [[NOMINATED, *CUTS]]
    assert (record.channel_mask == 3).sum() == NOMINATED // 4  # of both nominators


def test_bench_reports_the_figures_of_the_issue():
    found = bench_log(requests=2 * BLOCK)
    assert {"added_ms_p99", "bytes_per_row", "rows_per_s"} <= found.figures.keys()
    assert found.figures["dropped_requests"] == 0
    assert found.figures["bytes_per_row"] > 1
    assert [claim.id for claim in found.claims] == ["added_ms_p99"]
