from dataclasses import replace

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.nodes import ScorerConfig, load_scorer, make_scorer
from shortlist.models.nodes.weight_norms import (
    NormLimits,
    excess,
    lipschitz_constant,
    norm_report,
    project_,
    score_range,
)
from tests.models.nodes.worlds import perturbed, rows_of, small

PLAIN = {"norm": "none", "output": "linear", "bias": False, "history": "item"}
each_kind = pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
each_pool = pytest.mark.parametrize("pool", ["sum", "mean"])
LIMITS = NormLimits(b0=0.7, b1=1.1, b2=0.9, bx=1.0, ba=0.6)


def plain(kind, seed=0, **more):
    return perturbed(small(kind=kind, **PLAIN, **more), seed).double().eval()


def norms_by_loop(layer):
    rows = [sum(abs(entry) for entry in row) for row in layer.weight.tolist()]
    columns = [sum(abs(entry) for entry in column) for column in layer.weight.T.tolist()]
    return max(rows), max(columns)


def test_norms_equal_a_loop_over_entries():
    scorer = plain("attention")
    norms = norm_report(scorer)
    expected = [norms_by_loop(layer) for layer in (*scorer.layers.linear, scorer.layers.out)]
    assert [(matrix.row, matrix.column) for matrix in norms.layers] == [
        pytest.approx(pair) for pair in expected
    ]
    unit = [norms_by_loop(layer) for layer in (scorer.unit1, scorer.unit2)]
    assert [(matrix.row, matrix.column) for matrix in norms.unit] == [pytest.approx(pair) for pair in unit]
    assert norms.b0 == pytest.approx(max(sum(x * x for x in v) ** 0.5 for v in scorer.nodes.weight.tolist()))
    assert norms.ba == pytest.approx(max(sum(x * x for x in v) ** 0.5 for v in scorer.items.weight.tolist()))
    assert (norms.bx, norms.reach, norms.max_history, norms.depth) == (None, 3, 7, 4)
    assert norms.b1 == max(row for row, _ in expected)
    assert norms.product1 <= norms.b1**norms.depth
    assert norms.product2 <= norms.b2**2


@each_kind
@each_pool
@pytest.mark.parametrize("seed", range(4))
def test_i07_no_score_exceeds_the_bound(kind, pool, seed):
    scorer = plain(kind, seed, pool=pool)
    batches = [rows_of(scorer.config, users=20, candidates=20, seed=seed + at) for at in range(2)]
    norms = norm_report(scorer, batches)
    assert norms.bounded
    assert 0 < norms.observed <= norms.bf * (1 + 1e-12)
    largest = max(scorer.naive(*batch).abs().max().item() for batch in batches)
    assert norms.observed == pytest.approx(largest, rel=1e-9)


def test_the_bound_of_a_linear_scorer_is_attained():
    scorer = plain("linear")
    with torch.no_grad():
        scorer.items.weight[0] = scorer.nodes.weight[3]
        scorer.nodes.weight[3] *= 50
    norms = norm_report(scorer, [(torch.tensor([[0]]), torch.tensor([[3]]))])
    assert norms.observed == pytest.approx(norms.bf)


def test_the_bound_of_attention_is_attained_by_constant_weights():
    config = ScorerConfig(1, 1, width=1, hidden=1, layers=(1,), windows=(4, 2), **PLAIN)
    scorer = make_scorer(config, 0).double().eval()
    with torch.no_grad():
        for weight in scorer.parameters():
            weight.fill_(2.0)
        scorer.layers.first.weight.copy_(torch.tensor([[2.0, 0.0, 0.0]]))  # the longest window alone
        scorer.unit1.weight.copy_(torch.tensor([[0.0, 2.0, 0.0]]))
    norms = norm_report(
        scorer, [(torch.zeros(1, 6, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int64))]
    )
    # Slopes of 2 add a factor c = 2 for each of three activations, whose inputs are all positive.
    assert norms.c_sigma == 2.0
    assert norms.bf == pytest.approx(norms.observed * 2.0**3)
    assert norms.bf == score_range("attention", 2, None, 2, 4.0, 4.0, 2.0, 2, 4)


def test_with_biases_scores_may_exceed_the_bound_and_the_report_states_it():
    scorer = perturbed(small(kind="mlp", **PLAIN | {"bias": True})).double().eval()
    with torch.no_grad():
        scorer.layers.first.bias.fill_(1e6)
    norms = norm_report(scorer, [rows_of(scorer.config)])
    assert norms.observed > norms.bf
    assert not norms.bounded
    assert "it has biases" in norms.reasons


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bias": True}, "biases"),
        ({"norm": "layer"}, "normalises"),
        ({"norm": "batch"}, "normalises"),
        ({"output": "bn_prelu"}, "normalises"),
        ({"dropout": 0.1}, "dropout"),
        ({"history": "ancestor"}, "node table"),
    ],
)
def test_the_reasons_why_theorems_do_not_apply_are_listed(changes, reason):
    scorer = make_scorer(replace(small(kind="mlp", **PLAIN), **changes), 0)
    norms = norm_report(scorer, trained_history=False)
    assert not norms.theory_applicable
    assert any(reason in line for line in norms.reasons)


@each_kind
def test_theorems_apply_without_bias_and_with_fixed_history_vectors(kind):
    scorer = make_scorer(small(kind=kind, **PLAIN), 0)
    assert norm_report(scorer, trained_history=False).theory_applicable
    assert norm_report(scorer).reasons == ("histories are read from a trained table",)


@each_kind
@pytest.mark.parametrize("history", ["item", "ancestor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_i07_projection_is_idempotent_and_no_norm_grows(kind, history, dtype):
    scorer = perturbed(small(kind=kind, **PLAIN | {"history": history})).to(dtype)
    before = norm_report(scorer)
    project_(scorer, LIMITS)
    once, after = {name: weight.clone() for name, weight in scorer.state_dict().items()}, norm_report(scorer)
    project_(scorer, LIMITS)
    assert all(torch.equal(weight, once[name]) for name, weight in scorer.state_dict().items())
    assert after.b0 <= min(before.b0, LIMITS.b0)
    assert after.ba <= min(before.ba, LIMITS.ba)
    for limit, mine, theirs in (
        (LIMITS.b1, after.layers, before.layers),
        (LIMITS.b2, after.unit, before.unit),
    ):
        assert all(
            a.row <= min(limit, b.row) and a.column <= b.column for a, b in zip(mine, theirs, strict=True)
        )
    assert after.bf <= before.bf


def test_projection_changes_only_rows_above_the_limit():
    scorer = plain("mlp")
    with torch.no_grad():
        scorer.nodes.weight[0] = 0.0
        scorer.nodes.weight[1] *= 0.01
    kept = scorer.nodes.weight.detach().clone()
    project_(scorer, NormLimits(b0=0.7))
    moved = (scorer.nodes.weight != kept).any(1)
    assert moved.tolist() == (kept.norm(dim=1) > 0.7).tolist()
    aligned = torch.nn.functional.cosine_similarity(scorer.nodes.weight[moved], kept[moved])
    assert torch.allclose(aligned, torch.ones_like(aligned))
    assert torch.allclose(scorer.nodes.weight[moved].norm(dim=1), torch.tensor(0.7).double())


def test_without_limits_nothing_changes_and_the_penalty_is_zero():
    scorer = plain("attention")
    before = {name: weight.clone() for name, weight in scorer.state_dict().items()}
    project_(scorer, NormLimits())
    assert all(torch.equal(weight, before[name]) for name, weight in scorer.state_dict().items())
    assert excess(scorer, NormLimits()).item() == 0.0


def test_excess_equals_a_loop_and_vanishes_after_projection():
    scorer = plain("linear")
    lengths = [sum(x * x for x in row) ** 0.5 for row in scorer.nodes.weight.tolist()]
    loss = excess(scorer, NormLimits(b0=2.0))
    assert loss.item() == pytest.approx(sum(max(0.0, length - 2.0) for length in lengths))
    loss.backward()
    assert (scorer.nodes.weight.grad.norm(dim=1) > 0).tolist() == [length > 2.0 for length in lengths]
    project_(scorer, NormLimits(b0=2.0))
    assert excess(scorer, NormLimits(b0=2.0)).item() == 0.0


@pytest.mark.parametrize("name", ["relu", "tanh", "elu", "silu", "gelu"])
def test_lipschitz_constants_equal_those_of_a_fine_grid(name):
    x = torch.linspace(-8, 8, 200_001, dtype=torch.float64, requires_grad=True)
    activation = getattr(torch.nn.functional, name, torch.tanh)
    activation(x).sum().backward()
    assert float(x.grad.abs().max()) <= lipschitz_constant(name) <= float(x.grad.abs().max()) + 2e-4
    assert float(activation(torch.zeros(1))) == 0.0


def test_prelu_uses_its_slope_and_some_activations_have_no_constant():
    assert [lipschitz_constant("prelu", slope) for slope in (0.25, -3.0, 2.0)] == [1.0, 3.0, 2.0]
    for name, reason in (("sigmoid", "not 0 at 0"), ("dice", "batch"), ("swish", "must be one of")):
        with pytest.raises(ConfigError, match=reason):
            lipschitz_constant(name)


@pytest.mark.parametrize("changes", [{"b0": 0.0}, {"b1": -1.0}, {"b2": float("inf")}, {"ba": float("nan")}])
def test_invalid_limits_are_refused(changes):
    with pytest.raises(ConfigError, match="positive number"):
        NormLimits(**changes)


def test_a_bias_that_is_not_boolean_is_refused():
    with pytest.raises(ConfigError, match="true or false"):
        small(bias="none")


def test_a_limit_below_the_norm_of_history_vectors_is_refused():
    with pytest.raises(ConfigError, match="length 1"):
        NormLimits(bx=0.5)


def test_the_bound_of_an_mlp_needs_the_norm_of_history_vectors():
    with pytest.raises(ConfigError, match="needs bx"):
        score_range("mlp", 1.0, None, 1.0)


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_i08_scores_scale_with_the_last_matrix(kind):
    scorer = plain(kind)
    batch = rows_of(scorer.config)
    before = scorer(*batch)
    with torch.no_grad():
        scorer.layers.out.weight *= 2.5
    assert torch.allclose(scorer(*batch), 2.5 * before, atol=1e-12)


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_a_scorer_without_bias_has_no_trainable_bias_and_stores_zeros(kind):
    scorer = make_scorer(small(kind=kind, **PLAIN), 0)
    assert not [name for name, _ in scorer.named_parameters() if name.endswith("bias")]
    assert all(not buffer.any() for name, buffer in scorer.named_buffers() if name.endswith("bias"))
    back = load_scorer(scorer.settings(), scorer.state_dict())
    batch = rows_of(scorer.config)
    with torch.no_grad():
        assert torch.allclose(back(*batch), scorer.eval().naive(*batch), atol=1e-5)
    padding = torch.full((1, 3), -1)
    with torch.no_grad():
        back.nodes.weight[0] = 0.0
        assert back(padding, torch.zeros(1, 1, dtype=torch.int64)).item() == 0.0


def test_the_report_changes_no_batch_norm_statistics():
    scorer = perturbed(small(kind="mlp", norm="batch"))
    before = {name: weight.clone() for name, weight in scorer.state_dict().items()}
    norm_report(scorer, [rows_of(scorer.config)])
    assert scorer.training
    assert all(torch.equal(weight, before[name]) for name, weight in scorer.state_dict().items())
