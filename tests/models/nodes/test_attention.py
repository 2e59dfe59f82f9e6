"""Attention: the fast form equals the naive one, and scores do not depend on padding or the batch."""

import pytest
import torch

from shortlist.models.nodes import UnitInputs, attention, plain_weights, unit
from tests.models.nodes.worlds import OPTIONS, SIZES, perturbed, rows_of, small


def grads(scorer, scores):
    """Gradients of a weighted sum of all scores."""
    factors = torch.linspace(-1, 1, scores.numel(), dtype=scores.dtype).view_as(scores)
    weights = [weight for weight in scorer.parameters() if weight.requires_grad]
    return torch.autograd.grad((scores * factors).sum(), weights)


def close(fast, naive, bound):
    scale = max(1.0, naive.abs().max().item())
    return (fast - naive).abs().max().item() <= bound * scale


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_t20_fast_form_and_gradients_equal_the_naive_ones(options, training, dtype, bound):
    config = small(**options)
    scorer = perturbed(config).to(dtype).train(training)
    history, rows = rows_of(config)
    fast, naive = scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows)
    assert fast.dtype == dtype
    assert close(fast, naive, bound)
    for mine, oracle in zip(grads(scorer, fast), grads(scorer, naive), strict=True):
        assert close(mine, oracle, 20 * bound)  # a gradient sums over users and candidates


@pytest.mark.parametrize("size", SIZES)
def test_t20_holds_for_other_windows_and_widths(size):
    config = small(**size)
    scorer = perturbed(config).double()
    history, rows = rows_of(config)
    assert close(scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows), 1e-12)


@pytest.mark.parametrize("options", OPTIONS[::5])
def test_blocked_attention_weights_equal_unblocked_ones(options, monkeypatch):
    config = small(**options)
    scorer = perturbed(config).double().eval()
    history, rows = rows_of(config, users=7, candidates=11)
    whole = scorer.score(scorer.prepare(history), rows)
    for block in (1, 700, 2000, 5000):  # bytes: one pair, some candidates, some users
        monkeypatch.setattr(unit, "CPU_BLOCK", block)
        with torch.no_grad():
            assert close(scorer.score(scorer.prepare(history), rows), whole, 1e-12)


def test_plain_weights_of_a_hand_computed_case():
    a, w = torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[1.0], [-1.0]]])  # one user, width 1
    there, zero = torch.tensor([[True, False]]), torch.zeros(1)
    pa, pn = torch.tensor([[[1.0], [1.0]]]), torch.tensor([[[0.5], [0.5]]])
    weights = torch.ones(1, 1), torch.full((1,), 2.0), zero, zero + 0.5, zero + 0.1
    s = plain_weights(UnitInputs(a, there, pa, w, pn, *weights))
    # node 1: 1 + 0.5 + 2 = 3.5, times 2; node 2: 1.5 - 2 = -0.5, halved, times 2, a tenth of that
    assert torch.allclose(s, torch.tensor([[[7.0, 0.0], [-0.05, 0.0]]]))


@pytest.mark.parametrize("options", OPTIONS)
def test_t21_left_padding_does_not_change_scores(options):
    config = small(**options)
    scorer = perturbed(config).double().eval()
    history, rows = rows_of(config, length=config.max_history - 2)
    short = scorer.score(scorer.prepare(history), rows)
    for pads in (1, 2, 5):
        padded = torch.nn.functional.pad(history, (pads, 0), value=-1)
        assert torch.equal(scorer.score(scorer.prepare(padded), rows), short)


def test_t21_a_long_history_is_truncated_and_its_newest_item_is_in_the_last_window():
    config = small(windows=(2, 1))
    scorer = perturbed(config).double().eval()
    history, rows = rows_of(config, length=9)
    long = scorer.score(scorer.prepare(history), rows)
    assert torch.equal(long, scorer.score(scorer.prepare(history[:, -3:]), rows))
    swapped = history[:, [*range(7), 8, 7]]
    older = history[:, [*range(6), 7, 6, 8]]  # two of the same window
    assert not torch.allclose(long[1:], scorer.score(scorer.prepare(swapped), rows)[1:])
    assert torch.allclose(long, scorer.score(scorer.prepare(older), rows))


@pytest.mark.parametrize("options", OPTIONS)
def test_t21_an_empty_history_has_finite_scores_and_gradients(options):
    config = small(**options)
    scorer = perturbed(config)
    history, rows = rows_of(config)
    scores = scorer.score(scorer.prepare(torch.full_like(history, -1)), rows)
    assert scores.isfinite().all()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(scores.sum(), scorer.nodes.weight))


@pytest.mark.parametrize("options", OPTIONS)
def test_t06_scores_do_not_depend_on_the_batch(options):
    config = small(**options)
    scorer = perturbed(config).double().eval()
    history, rows = rows_of(config)
    together = scorer.score(scorer.prepare(history), rows)
    for user in range(len(history)):
        alone = scorer.score(scorer.prepare(history[user : user + 1]), rows[user : user + 1, 2:3])
        assert torch.allclose(alone[0, 0], together[user, 2], rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", OPTIONS[::3])
def test_shared_rows_have_the_scores_of_own_rows(options):
    config = small(**options)
    scorer = perturbed(config).double().eval()
    history, rows = rows_of(config)
    state = scorer.prepare(history)
    assert torch.allclose(
        scorer.score_all(state, rows[0]), scorer.score(state, rows[:1].expand(4, -1)), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("pool", ["sum", "mean"])
def test_padding_to_a_multiple_of_eight_does_not_change_scores(pool, monkeypatch):
    """On a GPU histories are padded to a multiple of eight."""
    monkeypatch.setattr(attention, "_uses_triton", lambda x: True)
    monkeypatch.setattr(attention, "fused_weights", plain_weights)
    config = small(pool=pool)
    assert config.max_history % 8
    scorer = perturbed(config)
    history, rows = rows_of(config)
    state = scorer.prepare(history)
    assert state.a.shape[1] % 8 == 0
    assert close(scorer.score(state, rows), scorer.naive(history, rows), 1e-5)


def test_batch_norm_statistics_come_from_scored_rows_only():
    config = small(norm="batch")
    scorer = perturbed(config)
    history, rows = rows_of(config)
    norm = scorer.layers.norm[0]
    state = scorer.prepare(history)
    assert norm.num_batches_tracked == 0
    scorer.score(state, rows)
    assert norm.num_batches_tracked == 1
    scorer.eval().score(state, rows)
    assert norm.num_batches_tracked == 1


def test_dropout_acts_in_training_only():
    config = small(dropout=0.5)
    scorer = perturbed(config)
    history, rows = rows_of(config)
    state = scorer.prepare(history)
    torch.manual_seed(0)
    assert not torch.equal(scorer.score(state, rows), scorer.score(state, rows))
    scorer.eval()
    assert torch.equal(scorer.score(state, rows), scorer.score(state, rows))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", OPTIONS)
def test_on_the_gpu_the_fast_form_equals_the_naive_one(options):
    config = small(**options)
    scorer = perturbed(config).cuda().double()
    history, rows = (part.cuda() for part in rows_of(config))
    fast, naive = scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows)
    assert close(fast, naive, 1e-12)
    with torch.no_grad():
        assert close(scorer.eval().score(scorer.prepare(history), rows), scorer.naive(history, rows), 1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("options", OPTIONS)
def test_autocast_scores_are_float32_and_close_to_full_precision(options):
    config = small(**options)
    scorer = perturbed(config).cuda()
    history, rows = (part.cuda() for part in rows_of(config, users=64, candidates=32))
    full = scorer.score(scorer.prepare(history), rows)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        scores = scorer.score(scorer.prepare(history), rows)
        with torch.no_grad():
            no_grad = scorer.score(scorer.prepare(history), rows)
    assert scores.dtype == no_grad.dtype == torch.float32
    assert (scores - full).abs().mean() < 0.05 * full.std()
    assert (no_grad - scores).abs().mean() < 0.05 * full.std()
    scores.sum().backward()
    assert scorer.nodes.weight.grad.isfinite().all()
