from shortlist.lab.bench.state.speed import bench_state
from shortlist.lab.bench.state.stream import Size

SMALL = Size(items=50, users=40, active=5, events=600, single=20, repeats=1, replayed=900, distinct=600)


def test_figures_are_those_of_the_issue():
    found = bench_state(size=SMALL)
    rates = [f"events_per_s_{name}" for name in ("single", "batched", "batched_columns", "batched_on_disk")]
    assert all(found.figures[name] > 0 and found.figures[f"{name}_wall"] > 0 for name in rates)
    sizes = [found.figures[f"record_bytes_{name}"] for name in ("fp32", "fp16", "int8")]
    assert sizes == [288, 160, 104]  # of the specification, at width 64
    assert found.figures["bytes_per_user_fp32"] > found.figures["bytes_per_user_int8"] > 104
    assert [claim.id for claim in found.claims] == ["events_per_s_batched", "replay_different_users"]
    assert found.figures["replay_duplicates"] == 300
