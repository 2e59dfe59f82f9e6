import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench.bandit import speed
from shortlist.lab.bench.bandit.speed import Size, bench_bandit
from shortlist.lab.result import result_json

SMALL = Size(width=6, arms=9, nominators=4, seeds=2, rounds=10)


def test_a_small_profile_measures_the_ratio():
    result = bench_bandit(size=SMALL)
    figures = {(row.method, row.metric): row for row in result.rows}
    assert figures["plain", "seconds"].mean > 0
    assert len(figures["batched", "seconds"].values) == 3
    assert result_json(result)["speedup"] == result.claims[0].estimate > 0


def test_different_trajectories_are_not_compared(monkeypatch):
    plain = speed.plain_runs

    def other_seed(world, systems, seed, rounds, settings):
        return plain(world, systems, seed + 1, rounds, settings)

    monkeypatch.setattr(speed, "plain_runs", other_seed)
    with pytest.raises(
        ShortlistError, match=r"expected the same trajectory of U\+U with 6 features in seed 0"
    ):
        bench_bandit(size=SMALL)
