"""Calibration curves recover the probabilities they are fitted on, and keep the order."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages.calibrated import Calibrated
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.calibrate import calibrated, isotonic, platt, raw_scores


@dataclass(frozen=True, eq=False, repr=False)
class AsFound(Calibrated):
    """Keeps the scores."""

    def raw(self, query: Query, found: Candidates) -> torch.Tensor:
        return found.scores


def sample(count: int = 20_000, slope: float = 1.5, shift: float = -2.0):
    random = np.random.default_rng(0)
    scores = random.normal(3, 2, count)
    return scores, random.random(count) < 1 / (1 + np.exp(-(slope * (scores - 3) / 2 + shift)))


def nll(probability: np.ndarray, targets: np.ndarray) -> float:
    return float(-np.log(np.where(targets, probability, 1 - probability)).mean())


def probabilities_of(calibration, scores: np.ndarray) -> np.ndarray:
    return calibration(torch.from_numpy(scores)).double().numpy()


def batches_of(count: int = 4, width: int = 50) -> list[RequestBatch]:
    scores, targets = sample(count * width)
    made = []
    for part in range(count):
        rows = slice(part * width, (part + 1) * width)
        items = torch.arange(width)[None]
        targets_of_part = items[0][torch.from_numpy(targets[rows])][None]
        made.append(
            RequestBatch(
                Query.of([[]]),
                Candidates.of(items, torch.from_numpy(scores[rows])[None].float()),
                targets_of_part,
            )
        )
    return made


def test_platt_recovers_a_logistic_curve():
    scores, targets = sample()
    mean, spread, slope, shift = platt(scores, targets).line.tolist()
    assert slope / spread == pytest.approx(1.5 / 2, rel=0.05)
    assert shift + slope * (3 - mean) / spread == pytest.approx(-2.0, rel=0.05)


@pytest.mark.parametrize("fit", [platt, isotonic])
def test_probabilities_match_observed_frequencies(fit):
    scores, targets = sample()
    probability = probabilities_of(fit(scores, targets), scores)
    for part in np.array_split(np.argsort(probability), 10):
        assert probability[part].mean() == pytest.approx(targets[part].mean(), abs=0.02)
    assert nll(probability, targets) < nll(np.full(len(targets), targets.mean()), targets)


def test_isotonic_pools_match_a_case_by_hand():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    targets = np.array([False, True, False, True, True, True])
    made = isotonic(scores, targets)
    # Pools {1}, {2, 3}, {4, 5, 6} have their centres at 1, 2.5 and 5; the margin to 0 and 1 is 1 / 8.
    assert made.heights.tolist() == [0.125, 0.5, 0.875]
    assert (made.knots * made.line[1] + made.line[0]).tolist() == pytest.approx([1.0, 2.5, 5.0])
    probabilities = probabilities_of(made, np.array([1.0, 2.5, 3.75, 5.0]))
    assert probabilities.tolist() == pytest.approx([0.125, 0.5, 0.6875, 0.875], abs=1e-3)


@pytest.mark.parametrize("fit", [platt, isotonic])
@pytest.mark.parametrize("kind", ["inverted", "none", "all", "one score", "one"])
def test_uninformative_scores_have_an_increasing_curve(fit, kind):
    scores, targets = sample(2000)
    scores = {"inverted": -scores, "one score": np.full(2000, 7.0)}.get(kind, scores)
    targets = {"none": np.zeros(2000, bool), "all": np.ones(2000, bool)}.get(kind, targets)
    if kind == "one":
        scores, targets = scores[:1], targets[:1]
    made = fit(scores, targets)
    probability = probabilities_of(made, np.sort(scores))
    assert bool((np.diff(probability) >= 0).all())
    assert bool(((probability > 0) & (probability < 1)).all())
    if kind != "one":
        assert probability.mean() == pytest.approx(targets.mean(), abs=0.02)
    type(made).of(made.tensors())._check()


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_stage_is_calibrated_on_the_candidates_of_batches(method):
    batches, stage = batches_of(), AsFound(name="rank")
    scores, targets = raw_scores(stage, batches)
    assert len(scores) == 200
    assert targets.sum() == sum(int(one.is_target.sum()) for one in batches)
    made = calibrated(stage, method, batches, "rank")
    assert made.probabilities
    assert made.name == "rank"
    one = batches[0]
    assert torch.equal(
        made.score(one.query, one.found).argsort(stable=True), one.found.scores.argsort(stable=True)
    )
    assert calibrated(stage, "none", batches, "rank") is stage


def test_calibration_without_candidates_is_refused():
    with pytest.raises(ConfigError, match="rank: calibrate = 'platt' needs validation requests"):
        calibrated(AsFound(), "platt", [], "rank")
    empty = RequestBatch(Query.of([[]]), Candidates.none(1), torch.tensor([[1]]))
    with pytest.raises(ConfigError, match="got 1 batches and no candidate"):
        calibrated(AsFound(), "isotonic", [empty], "rank")
