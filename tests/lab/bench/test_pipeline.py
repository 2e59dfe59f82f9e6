from shortlist.data import Query
from shortlist.lab.bench.pipeline import BLOCK, CANDIDATES, bench_pipeline, real_stages, six_stages
from tests.worlds import run_checked


def test_both_pipelines_have_the_claimed_shape():
    trace = run_checked(six_stages(0), Query.of([[1, 2]])).trace
    assert len(trace.steps) == 6
    assert trace.nominated.valid.sum() == CANDIDATES
    run_checked(real_stages(0), Query.of([[1, 2]]))


def test_overhead_and_its_share_are_measured():
    result = bench_pipeline(requests=5)
    assert result.figures["overhead_ms"] > 0
    assert result.figures["overhead_share"] > 0
    assert len(result.rows[0].values) == BLOCK
