"""The MLP scorer: the first layer split into history and node parts equals the whole."""

import pytest
import torch

from tests.models.nodes.worlds import OPTIONS, perturbed, rows_of, small


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_t20_fast_form_and_gradients_equal_the_naive_ones(options, training):
    config = small(kind="mlp", **options)
    scorer = perturbed(config).double().train(training)
    past, rows = rows_of(config)
    fast, naive = scorer.score(scorer.prepare(past), rows), scorer.naive(past, rows)
    assert torch.allclose(fast, naive, rtol=0, atol=1e-12)
    for mine, oracle in zip(
        *(torch.autograd.grad(x.square().sum(), scorer.parameters()) for x in (fast, naive)), strict=True
    ):
        assert torch.allclose(mine, oracle, rtol=0, atol=1e-11)


def test_shared_rows_padding_and_batch_do_not_change_scores():
    config = small(kind="mlp")
    scorer = perturbed(config).double().eval()
    past, rows = rows_of(config)
    state = scorer.prepare(past)
    scores = scorer.score_all(state, rows[0])
    assert torch.allclose(scores, scorer.score(state, rows[:1].expand(4, -1)), rtol=0, atol=1e-13)
    padded = torch.nn.functional.pad(past[2:3], (3, 0), value=-1)
    assert torch.allclose(scorer(padded, rows[:1, 1:2])[0, 0], scores[2, 1], rtol=0, atol=1e-13)
    assert scores[0].isfinite().all()


def test_linear_output_has_no_bias_and_bn_prelu_has_norm_and_slope():
    plain, bn_prelu = perturbed(small(kind="mlp")), perturbed(small(kind="mlp", output="bn_prelu"))
    assert plain.layers.out.bias is None
    assert {
        "layers.out.bias",
        "layers.out_norm.running_mean",
        "layers.out_act.slope",
    } <= bn_prelu.state_dict().keys()


def test_layers_of_a_hand_computed_case():
    layers = perturbed(small(kind="mlp", width=1, layers=(2,), norm="none")).layers
    with torch.no_grad():
        layers.first.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        layers.first.bias.copy_(torch.tensor([0.0, 1.0]))
        layers.act[0].slope.fill_(0.5)
        layers.out.weight.copy_(torch.tensor([[10.0, 1.0]]))
    assert layers(torch.tensor([[-2.0, 3.0]])).tolist() == [-6.0]  # 10 * -1 + 1 * 4
