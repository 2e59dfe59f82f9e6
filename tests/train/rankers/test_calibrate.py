"""Curves from scores to probabilities: what they are fitted on comes out, and the order stays."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages.calibrated import Calibrated
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.calibrate import calibrated, isotonic, judged, platt


@dataclass(frozen=True, eq=False, repr=False)
class AsFound(Calibrated):
    """Scores candidates by the score they came with."""

    def raw(self, query: Query, found: Candidates) -> torch.Tensor:
        return found.scores


def sample(count: int = 20_000, slope: float = 1.5, shift: float = -2.0):
    random = np.random.default_rng(0)
    scores = random.normal(3, 2, count)
    return scores, random.random(count) < 1 / (1 + np.exp(-(slope * (scores - 3) / 2 + shift)))


def nll(chance: np.ndarray, wanted: np.ndarray) -> float:
    return float(-np.log(np.where(wanted, chance, 1 - chance)).mean())


def asked(fit, scores: np.ndarray) -> np.ndarray:
    return fit(torch.from_numpy(scores)).double().numpy()


def rounds_of(count: int = 4, wide: int = 50) -> list[RequestBatch]:
    scores, wanted = sample(count * wide)
    made = []
    for part in range(count):
        rows = slice(part * wide, (part + 1) * wide)
        items = torch.arange(wide)[None]
        truth = items[0][torch.from_numpy(wanted[rows])][None]
        made.append(
            RequestBatch(
                Query.of([[]]), Candidates.of(items, torch.from_numpy(scores[rows])[None].float()), truth
            )
        )
    return made


def test_a_logistic_curve_is_found_again():
    scores, wanted = sample()
    mean, spread, slope, shift = platt(scores, wanted).line.tolist()
    assert slope / spread == pytest.approx(1.5 / 2, rel=0.05)
    assert shift + slope * (3 - mean) / spread == pytest.approx(-2.0, rel=0.05)


@pytest.mark.parametrize("fit", [platt, isotonic])
def test_probabilities_mean_what_they_say(fit):
    scores, wanted = sample()
    chance = asked(fit(scores, wanted), scores)
    for part in np.array_split(np.argsort(chance), 10):
        assert chance[part].mean() == pytest.approx(wanted[part].mean(), abs=0.02)
    assert nll(chance, wanted) < nll(np.full(len(wanted), wanted.mean()), wanted)


def test_pools_are_those_of_an_obvious_search():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    wanted = np.array([False, True, False, True, True, True])
    made = isotonic(scores, wanted)
    # Pools {1}, {2, 3}, {4, 5, 6} have their middles at 1, 2.5 and 5; 0 and 1 are kept off by 1 / 8.
    assert made.heights.tolist() == [0.125, 0.5, 0.875]
    assert (made.knots * made.line[1] + made.line[0]).tolist() == pytest.approx([1.0, 2.5, 5.0])
    told = asked(made, np.array([1.0, 2.5, 3.75, 5.0]))
    assert told.tolist() == pytest.approx([0.125, 0.5, 0.6875, 0.875], abs=1e-3)


@pytest.mark.parametrize("fit", [platt, isotonic])
@pytest.mark.parametrize("kind", ["turned", "none", "all", "one score", "one"])
def test_scores_that_say_nothing_have_a_rising_curve_all_the_same(fit, kind):
    scores, wanted = sample(2000)
    scores = {"turned": -scores, "one score": np.full(2000, 7.0)}.get(kind, scores)
    wanted = {"none": np.zeros(2000, bool), "all": np.ones(2000, bool)}.get(kind, wanted)
    if kind == "one":
        scores, wanted = scores[:1], wanted[:1]
    made = fit(scores, wanted)
    chance = asked(made, np.sort(scores))
    assert bool((np.diff(chance) >= 0).all())
    assert bool(((chance > 0) & (chance < 1)).all())
    if kind != "one":
        assert chance.mean() == pytest.approx(wanted.mean(), abs=0.02)
    type(made).of(made.tensors())._check()


@pytest.mark.parametrize("how", ["platt", "isotonic"])
def test_a_stage_is_calibrated_on_the_candidates_of_rounds(how):
    rounds, stage = rounds_of(), AsFound(name="rank")
    scores, wanted = judged(stage, rounds)
    assert len(scores) == 200
    assert wanted.sum() == sum(int(one.wanted.sum()) for one in rounds)
    made = calibrated(stage, how, rounds, "rank")
    assert made.probabilities
    assert made.name == "rank"
    one = rounds[0]
    assert torch.equal(
        made.score(one.query, one.found).argsort(stable=True), one.found.scores.argsort(stable=True)
    )
    assert calibrated(stage, "none", rounds, "rank") is stage


def test_nothing_to_fit_on_is_said():
    with pytest.raises(ConfigError, match="rank: calibrate = 'platt' needs rehearsed requests"):
        calibrated(AsFound(), "platt", [], "rank")
    empty = RequestBatch(Query.of([[]]), Candidates.none(1), torch.tensor([[1]]))
    with pytest.raises(ConfigError, match="got 1 rounds and no candidate"):
        calibrated(AsFound(), "isotonic", [empty], "rank")
