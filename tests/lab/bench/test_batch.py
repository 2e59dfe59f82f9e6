from shortlist.lab.bench.batch import bench_batch, random_recommender
from shortlist.lab.result import result_json


def test_a_small_profile_measures_the_ratio():
    result = bench_batch(users=300)
    assert result_json(result)["all_over_scoring"] > 0
    figures = {(row.method, row.metric): row.mean for row in result.rows}
    assert figures["recommend --all", "rows"] == 3000
    ratio = figures["recommend --all", "seconds"] / figures["scoring alone", "seconds"]
    assert abs(ratio - result.figures["all_over_scoring"]) < 1e-9


def test_histories_have_very_different_lengths():
    lengths = random_recommender(0, 500).histories.starts.diff()
    assert (int(lengths.min()), int(lengths.max()) > 90) == (0, True)
