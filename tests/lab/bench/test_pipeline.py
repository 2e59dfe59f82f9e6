from shortlist.data import Query
from shortlist.lab.bench.pipeline import FIELD, WARM, bench_pipeline, real_stages, six_stages
from tests.worlds import run_checked


def test_both_pipelines_have_the_shape_that_is_claimed():
    trace = run_checked(six_stages(0), Query.of([[1, 2]])).trace
    assert len(trace.steps) == 6
    assert trace.named.valid.sum() == FIELD
    run_checked(real_stages(0), Query.of([[1, 2]]))


def test_what_is_measured_is_told():
    told = bench_pipeline(turns=5)
    assert told["overhead_ms"] > 0
    assert told["overhead_share"] > 0
    assert len(told["rows"][0]["values"]) == WARM
