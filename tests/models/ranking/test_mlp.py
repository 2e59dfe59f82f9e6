"""The feature MLP: standardised features in, one score out."""

import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.ranking.mlp import FeatureMLP


def network():
    torch.manual_seed(0)
    made = FeatureMLP([3, 4], dropout=0.5).eval()
    made.mean.copy_(torch.tensor([1.0, 0.0, -1.0]))
    made.scale.copy_(torch.tensor([2.0, 1.0, 0.5]))
    return made


@torch.no_grad()
def test_forward_pass_by_hand():
    made, features = network(), torch.tensor([3.0, 0.5, 100.0])
    scaled = torch.tensor([1.0, 0.5, 5.0])  # the last one is clipped
    hidden = F.gelu(made.layers[0].weight @ scaled + made.layers[0].bias)
    score = made.layers[1].weight @ hidden + made.layers[1].bias
    assert torch.allclose(made(features), score[0])


@torch.no_grad()
def test_leading_dimensions_are_kept():
    made = network()
    features = torch.randn(2, 5, 3)
    assert made(features).shape == (2, 5)
    assert torch.allclose(made(features)[1, 4], made(features[1, 4]), atol=1e-6)
    assert made(torch.empty(2, 0, 3)).shape == (2, 0)


@torch.no_grad()
def test_scores_are_the_same_when_rebuilt():
    made = network()
    rebuilt = FeatureMLP.of(made.state_dict())
    assert not rebuilt.training
    features = torch.randn(7, 3)
    assert torch.equal(rebuilt(features), made(features))
    one = FeatureMLP([3])
    assert len(FeatureMLP.of(one.state_dict()).layers) == 1


def test_dropout_is_active_in_training_only():
    made = network()
    features = torch.randn(64, 3)
    assert torch.equal(made(features), made(features))
    made.train()
    assert not torch.equal(made(features), made(features))
