from dataclasses import replace

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.nodes import ScorerConfig, load_scorer, make_scorer
from shortlist.models.nodes.weight_norms import NormLimits, excess, norm_report, project_, score_range, steepest
from tests.models.nodes.worlds import lively, rows_of, small

PLAIN = {"norm": "none", "output": "linear", "bias": False, "history": "item"}
each_kind = pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
each_pool = pytest.mark.parametrize("pool", ["sum", "mean"])
LIMITS = NormLimits(b0=0.7, b1=1.1, b2=0.9, bx=1.0, ba=0.6)


def plain(kind, seed=0, **more):
    return lively(small(kind=kind, **PLAIN, **more), seed).double().eval()


def norms_by_loop(layer):
    rows = [sum(abs(one) for one in row) for row in layer.weight.tolist()]
    columns = [sum(abs(one) for one in column) for column in layer.weight.T.tolist()]
    return max(rows), max(columns)


def test_norms_are_those_of_a_loop_over_numbers():
    scorer = plain("attention")
    norms = norm_report(scorer)
    wanted = [norms_by_loop(layer) for layer in (*scorer.layers.linear, scorer.layers.out)]
    assert [(one.row, one.column) for one in norms.layers] == [pytest.approx(pair) for pair in wanted]
    unit = [norms_by_loop(layer) for layer in (scorer.unit1, scorer.unit2)]
    assert [(one.row, one.column) for one in norms.unit] == [pytest.approx(pair) for pair in unit]
    assert norms.b0 == pytest.approx(max(sum(x * x for x in v) ** 0.5 for v in scorer.nodes.weight.tolist()))
    assert norms.ba == pytest.approx(max(sum(x * x for x in v) ** 0.5 for v in scorer.items.weight.tolist()))
    assert (norms.bx, norms.reach, norms.max_history, norms.depth) == (None, 3, 7, 4)
    assert norms.b1 == max(row for row, _ in wanted)
    assert norms.product1 <= norms.b1**norms.depth
    assert norms.product2 <= norms.b2**2


@each_kind
@each_pool
@pytest.mark.parametrize("seed", range(4))
def test_i07_no_score_is_larger_than_the_range(kind, pool, seed):
    scorer = plain(kind, seed, pool=pool)
    batches = [rows_of(scorer.config, users=20, candidates=20, seed=seed + at) for at in range(2)]
    norms = norm_report(scorer, batches)
    assert norms.bounded
    assert 0 < norms.observed <= norms.bf * (1 + 1e-12)
    met = max(scorer.naive(*batch).abs().max().item() for batch in batches)
    assert norms.observed == pytest.approx(met, rel=1e-9)


def test_the_range_of_a_linear_scorer_is_reached():
    scorer = plain("linear")
    with torch.no_grad():
        scorer.items.weight[0] = scorer.nodes.weight[3]
        scorer.nodes.weight[3] *= 50
    norms = norm_report(scorer, [(torch.tensor([[0]]), torch.tensor([[3]]))])
    assert norms.observed == pytest.approx(norms.bf)


def test_the_range_of_attention_is_reached_by_one_number_everywhere():
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
    # Slopes of 2 cost c = 2 in each of three activations that nothing below zero ever meets.
    assert norms.c_sigma == 2.0
    assert norms.bf == pytest.approx(norms.observed * 2.0**3)
    assert norms.bf == score_range("attention", 2, None, 2, 4.0, 4.0, 2.0, 2, 4)


def test_with_biases_a_score_can_exceed_the_formula_and_the_report_says_so():
    scorer = lively(small(kind="mlp", **PLAIN | {"bias": True})).double().eval()
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
def test_what_the_theorems_do_not_allow_is_named(changes, reason):
    scorer = make_scorer(replace(small(kind="mlp", **PLAIN), **changes), 0)
    norms = norm_report(scorer, learned=False)
    assert not norms.theory_applicable
    assert any(reason in one for one in norms.reasons)


@each_kind
def test_the_theorems_speak_of_scorers_without_bias_whose_histories_are_given(kind):
    scorer = make_scorer(small(kind=kind, **PLAIN), 0)
    assert norm_report(scorer, learned=False).theory_applicable
    assert norm_report(scorer).reasons == ("histories are read from a table that is learned",)


@each_kind
@pytest.mark.parametrize("history", ["item", "ancestor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_i07_projecting_twice_is_projecting_once_and_no_norm_grows(kind, history, dtype):
    scorer = lively(small(kind=kind, **PLAIN | {"history": history})).to(dtype)
    before = norm_report(scorer)
    project_(scorer, LIMITS)
    once, after = {name: one.clone() for name, one in scorer.state_dict().items()}, norm_report(scorer)
    project_(scorer, LIMITS)
    assert all(torch.equal(one, once[name]) for name, one in scorer.state_dict().items())
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


def test_projecting_moves_only_what_is_over_its_limit():
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


def test_without_limits_nothing_moves_and_nothing_is_penalised():
    scorer = plain("attention")
    before = {name: one.clone() for name, one in scorer.state_dict().items()}
    project_(scorer, NormLimits())
    assert all(torch.equal(one, before[name]) for name, one in scorer.state_dict().items())
    assert excess(scorer, NormLimits()).item() == 0.0


def test_the_excess_is_that_of_a_loop_vanishes_when_projected_and_pulls_downhill():
    scorer = plain("linear")
    lengths = [sum(x * x for x in row) ** 0.5 for row in scorer.nodes.weight.tolist()]
    loss = excess(scorer, NormLimits(b0=2.0))
    assert loss.item() == pytest.approx(sum(max(0.0, one - 2.0) for one in lengths))
    loss.backward()
    assert (scorer.nodes.weight.grad.norm(dim=1) > 0).tolist() == [one > 2.0 for one in lengths]
    project_(scorer, NormLimits(b0=2.0))
    assert excess(scorer, NormLimits(b0=2.0)).item() == 0.0


@pytest.mark.parametrize("name", ["relu", "tanh", "elu", "silu", "gelu"])
def test_the_steepest_slope_is_that_of_a_fine_grid(name):
    x = torch.linspace(-8, 8, 200_001, dtype=torch.float64, requires_grad=True)
    bend = getattr(torch.nn.functional, name, torch.tanh)
    bend(x).sum().backward()
    assert float(x.grad.abs().max()) <= steepest(name) <= float(x.grad.abs().max()) + 2e-4
    assert float(bend(torch.zeros(1))) == 0.0


def test_prelu_is_as_steep_as_its_slope_and_some_activations_have_no_constant():
    assert [steepest("prelu", slope) for slope in (0.25, -3.0, 2.0)] == [1.0, 3.0, 2.0]
    for name, why in (("sigmoid", "not 0 at 0"), ("dice", "batch"), ("swish", "must be one of")):
        with pytest.raises(ConfigError, match=why):
            steepest(name)


@pytest.mark.parametrize("changes", [{"b0": 0.0}, {"b1": -1.0}, {"b2": float("inf")}, {"ba": float("nan")}])
def test_limits_that_mean_nothing_are_refused(changes):
    with pytest.raises(ConfigError, match="positive number"):
        NormLimits(**changes)


def test_a_bias_that_is_neither_there_nor_not_is_refused():
    with pytest.raises(ConfigError, match="true or false"):
        small(bias="none")


def test_a_limit_below_the_length_of_history_vectors_is_refused():
    with pytest.raises(ConfigError, match="length 1"):
        NormLimits(bx=0.5)


def test_a_range_that_needs_the_history_says_so():
    with pytest.raises(ConfigError, match="needs bx"):
        score_range("mlp", 1.0, None, 1.0)


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_i08_scores_grow_with_the_last_matrix(kind):
    scorer = plain(kind)
    batch = rows_of(scorer.config)
    before = scorer(*batch)
    with torch.no_grad():
        scorer.layers.out.weight *= 2.5
    assert torch.allclose(scorer(*batch), 2.5 * before, atol=1e-12)


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_a_scorer_without_bias_learns_none_and_keeps_none_in_its_files(kind):
    scorer = make_scorer(small(kind=kind, **PLAIN), 0)
    assert not [name for name, _ in scorer.named_parameters() if name.endswith("bias")]
    assert all(not one.any() for name, one in scorer.named_buffers() if name.endswith("bias"))
    back = load_scorer(scorer.settings(), scorer.state_dict())
    batch = rows_of(scorer.config)
    with torch.no_grad():
        assert torch.allclose(back(*batch), scorer.eval().naive(*batch), atol=1e-5)
    nothing = torch.full((1, 3), -1)
    with torch.no_grad():
        back.nodes.weight[0] = 0.0
        assert back(nothing, torch.zeros(1, 1, dtype=torch.int64)).item() == 0.0


def test_a_report_is_plain_values():
    told = norm_report(plain("attention")).to_dict()
    assert told["theory_applicable"] is False
    assert told["layers"][0]["row"] > 0
    assert told["product1"] > 0


def test_looking_at_scores_teaches_nothing():
    scorer = lively(small(kind="mlp", norm="batch"))
    before = {name: one.clone() for name, one in scorer.state_dict().items()}
    norm_report(scorer, [rows_of(scorer.config)])
    assert scorer.training
    assert all(torch.equal(one, before[name]) for name, one in scorer.state_dict().items())
