"""Plain implementations equal the fast ones, with padding, rescues and empty rows."""

import numpy as np
import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.evaluate.losses import StageTrace, decompose
from shortlist.lab.bench.ranker import lists_difference, losses_difference
from shortlist.lab.bench.ranker_plain import (
    plain_calibrated,
    plain_decompose,
    plain_din,
    plain_lists,
    plain_resampled,
    plain_weights,
)
from shortlist.metrics import resampling
from shortlist.metrics.estimate import resampled
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.stages.calibrated import Calibration
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.training_data.training_set import MODES, ListSampling, TrainingSet

N = 30
DIN = {"max_history": 5, "width": 6, "attention": (5, 4), "hidden": (9, 7)}


def request_batch(seed: int, users: int = 6) -> RequestBatch:
    """Targets and candidates with padding; some targets are candidates."""
    random = np.random.default_rng(seed)
    items = torch.from_numpy(np.stack([random.permutation(N)[:9] for _ in range(users)]))
    truth = torch.from_numpy(np.stack([random.permutation(N)[:5] for _ in range(users)]))
    truth[0, 2:], truth[1] = -1, -1
    ranks = torch.from_numpy(random.random((users, 9)).astype(np.float32))
    found = Candidates.of(items, torch.from_numpy(random.random((users, 9))), {"n.rank": ranks})
    kept = torch.from_numpy(random.random((users, 9)) < 0.7)
    kept[2] = False
    return RequestBatch(Query.of([[seed, user] for user in range(users)]), found.keep(kept), truth)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("negatives", ["catalogue", "candidates", "both"])
def test_lists_equal_those_of_the_training_set(mode, negatives):
    sampling = ListSampling(mode=mode, negatives=negatives, n_negatives=8, positives_per_request=3)
    training_set = TrainingSet(sampling, [request_batch(seed) for seed in range(8)], N, 3)
    for number in range(len(training_set.training)):
        for epoch in (0, 1):
            plain = plain_lists(training_set, number, epoch, plain_weights(training_set, number))
            assert lists_difference(training_set.lists(number, epoch), plain) == 0


@torch.no_grad()
def test_din_equals_the_plain_form_with_padding():
    torch.manual_seed(0)
    model = DINRanker(DINRankerConfig(N, **DIN)).eval()
    history = torch.tensor([[-1, -1, 3, 4, 3], [0, 1, 2, 3, 4], [-1] * 5])
    rows = torch.tensor([[0, 5, 29], [1, 1, 2], [7, 8, 9]])
    assert torch.allclose(plain_din(model, history, rows), model.score_rows(history, rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", [{"inputs": "din4"}, {"windows": (2, 3)}])
def test_another_kind_of_din_is_refused(options):
    model = DINRanker(DINRankerConfig(N, **DIN, **options))
    with pytest.raises(ConfigError, match=r"expected a model that reads \[a; a \* e; e\]"):
        plain_din(model, torch.zeros(1, 5, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64))


@pytest.mark.parametrize("cells", [50, 1 << 22])
def test_resamples_equal_the_bootstrap(cells, monkeypatch):
    monkeypatch.setattr(resampling, "CELLS", cells)
    values = np.random.default_rng(0).integers(0, 9, (37, 3))
    assert np.array_equal(plain_resampled(values, 5, 41), resampled(values, 5, 41))


@pytest.mark.parametrize("rescue", [False, True])
def test_losses_equal_a_loop_over_pairs(rescue):
    random = np.random.default_rng(1)
    alive = random.random((60, 4)) < 0.6
    alive = alive if rescue else np.logical_and.accumulate(alive, axis=1)
    trace = StageTrace(alive, tuple("abcd"), random.integers(0, 9, 60), rescue=rescue)
    assert losses_difference(plain_decompose(trace), decompose(trace)) == 0
    assert bool(plain_decompose(trace).rescued.any()) == rescue


@pytest.mark.parametrize("knots", [[], [0.5], [-1.0, 0.0, 2.0]])
def test_probabilities_equal_a_loop_over_scores(knots):
    heights = [0.2, 0.4, 0.9][: len(knots)]
    curve = Calibration(
        *(torch.tensor(values, dtype=torch.float64) for values in ([0.3, 2.0, 1.5, -0.2], knots, heights))
    )
    scores = torch.linspace(-9, 9, 40).view(2, 20)
    assert torch.allclose(plain_calibrated(curve, scores), curve(scores), rtol=0, atol=1e-7)
