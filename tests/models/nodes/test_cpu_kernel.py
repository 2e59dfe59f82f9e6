"""The CPU kernel equals the naive form in float32, for every option and odd sizes."""

import pytest
import torch

from shortlist.models.nodes import NodeScorer, attention, warmup
from shortlist.models.nodes.cpu_kernel import TILE
from tests.models.nodes.worlds import OPTIONS, SIZES, perturbed, rows_of, small

BOUND = 1e-5  # relative to the largest score; measured: 2e-6


@pytest.fixture
def calls(monkeypatch):
    """Calls of the kernel."""
    made = []
    inner = attention.score_rows
    monkeypatch.setattr(attention, "score_rows", lambda *args: (made.append(1), inner(*args)))
    return made


def agree(scores, oracle):
    return (scores - oracle).abs().max() <= BOUND * max(1.0, oracle.abs().max())


@torch.no_grad()
@pytest.mark.parametrize("options", OPTIONS)
def test_t20_kernel_scores_equal_the_naive_form(options, calls):
    config = small(**options)
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    state = scorer.prepare(history)
    assert agree(scorer.score(state, rows), scorer.naive(history, rows))
    assert agree(scorer.score_all(state, rows[0]), scorer.naive(history, rows[:1].expand(4, -1)))
    assert calls == [1, 1]


@torch.no_grad()
@pytest.mark.parametrize("pool", ["sum", "mean"])
@pytest.mark.parametrize("size", SIZES)
def test_kernel_state_equals_the_torch_state(size, pool):
    config = small(**size, pool=pool)
    scorer = perturbed(config).eval()
    history, _ = rows_of(config)
    for mine, oracle in zip(scorer.prepare(history), scorer._prepare(history), strict=True):
        assert mine.dtype == oracle.dtype
        assert (
            torch.allclose(mine, oracle, atol=1e-5) if mine.is_floating_point() else torch.equal(mine, oracle)
        )


@torch.no_grad()
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("candidates", [0, 1, 15, 65, TILE, TILE + 1, 2 * TILE + 7])
def test_any_number_of_candidates_is_supported(size, candidates):
    config = small(**size)
    scorer = perturbed(config).eval()
    history, rows = rows_of(config, users=2, candidates=candidates)
    scores = scorer.score(scorer.prepare(history), rows)
    assert scores.shape == (2, candidates)
    if candidates:
        assert agree(scores, scorer.naive(history, rows))


@torch.no_grad()
def test_kernel_and_torch_states_are_interchangeable():
    config = small()
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    assert agree(scorer.score(scorer._prepare(history), rows), scorer.naive(history, rows))
    assert agree(NodeScorer.score(scorer, scorer.prepare(history), rows), scorer.naive(history, rows))


@torch.no_grad()
def test_prelu_slopes_may_be_negative_or_above_one():
    config = small(output="bn_prelu")
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    for slope in (-0.5, 0.0, 1.0, 2.5):
        scorer.act1.slope.fill_(slope)
        scorer.act2.slope.fill_(slope)
        scorer.layers.act[1].slope.fill_(slope)
        scorer.layers.out_act.slope.fill_(slope)
        assert agree(scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows))


@torch.no_grad()
def test_t06_kernel_scores_do_not_depend_on_the_batch():
    config = small()
    scorer = perturbed(config).eval()
    history, rows = rows_of(config, users=3, candidates=130)
    together = scorer.score(scorer.prepare(history), rows)
    for user, column in ((0, 0), (1, 64), (2, 129)):
        alone = scorer.score(
            scorer.prepare(history[user : user + 1]), rows[user : user + 1, column : column + 1]
        )
        assert torch.equal(alone[0, 0], together[user, column])


def test_training_gradients_and_float64_bypass_the_kernel(calls):
    config = small()
    scorer = perturbed(config)
    history, rows = rows_of(config)
    with torch.no_grad():
        scorer.score(scorer.prepare(history), rows)  # in training mode
    assert scorer.eval().score(scorer.prepare(history), rows).requires_grad
    with torch.no_grad():
        scorer.double().score(scorer.prepare(history), rows)
    assert not calls


@torch.no_grad()
def test_rows_outside_of_the_tables_are_refused():
    config = small()
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    state = scorer.prepare(history)
    for wrong in (-1, config.n_rows):
        with pytest.raises(IndexError, match="node row"):
            scorer.score(state, torch.full_like(rows, wrong))
    with pytest.raises(IndexError, match="history row"):
        scorer.prepare(torch.full_like(history, config.n_rows))


@torch.no_grad()
def test_nan_is_propagated():
    config = small()
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    scorer.nodes.weight[7] = float("nan")
    rows[:] = 3
    rows[:, 1] = 7
    history[history == 7] = 3
    scores = scorer.score(scorer.prepare(history), rows)
    assert scores[:, 1].isnan().all()
    assert scores[:, [0, 2, 3, 4]].isfinite().all()


def test_warmup_compiles_everything():
    warmup()
    compiled = len(attention.score_rows.signatures)
    test_kernel_and_torch_states_are_interchangeable()
    assert len(attention.score_rows.signatures) == compiled


@torch.no_grad()
@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_repeated_history_items_count_each_time(pool):
    config = small(pool=pool)
    scorer = perturbed(config).eval()
    _, rows = rows_of(config, users=3)
    history = torch.tensor([[5] * 7, [3, 5, 3, -1, 3, 5, 9], [-1, 8, -1, 8, 8, -1, 8]])
    assert agree(scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows))
