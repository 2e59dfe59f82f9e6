from shortlist.lab.bench.evaluate import bench_evaluate, random_bundle, top_k
from shortlist.lab.result import result_json
from shortlist.simulate import embedded


def test_a_small_profile_measures_the_ratio():
    found = result_json(bench_evaluate(users=120, items=80, repeats=1))
    assert found["evaluate_over_topk"] > 0
    assert found["peak_mib"] > 10
    assert found["processor"]
    seconds = {one["method"]: one["mean"] for one in found["rows"] if one["metric"] == "seconds"}
    assert found["k"] == 200
    assert found["evaluate_over_topk"] == seconds["evaluate, k = 200"] / seconds["top-200"]
    assert found["evaluate_over_top20"] == seconds["evaluate, k = 20"] / seconds["top-20"]
    assert found["evaluate_over_topk_cpu"] > 0


def test_denominator_searches_as_many_items_as_the_pipeline_nominates():
    data = embedded(size="small")
    for k in (20, 200):
        assert random_bundle(data, 0, k).pipeline.nominators[0].limit == k


def test_scoring_alone_leaves_out_the_history():
    data = embedded(size="small")
    held_out = data.split(protocol="leave-last-out").test.take(slice(0, 20))
    found = top_k(random_bundle(data, 0), held_out, 10)
    assert found.shape == (20, 10)
    for row in range(20):
        history = held_out.take(slice(row, row + 1)).query().history[0].tolist()
        assert not set(found[row].tolist()) & set(history)
