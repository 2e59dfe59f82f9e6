"""The gate: weights that sum to 1, their invariances, and pools."""

import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import Gate
from tests.models.mixture.worlds import A, D, N, examples, partition, small

KINDS = ("item", "user_item", "user", "features", "uniform")


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_single_items_and_of_all_items_agree_and_sum_to_1(kind: str) -> None:
    gate = small(kind).gate
    contexts, items, _ = examples()
    log_p, every = gate(contexts, items), gate.all(contexts)
    assert torch.allclose(log_p.exp().sum(-1), torch.ones(len(items), dtype=torch.float64))
    assert torch.allclose(log_p, every[torch.arange(len(items)), items])
    wide = torch.stack([items, items.flip(0)], 1)
    assert torch.allclose(gate(contexts, wide)[:, 0], log_p)


def test_a_constant_moved_from_v_to_u_changes_no_weight() -> None:
    gate = small().gate
    contexts, items, _ = examples()
    before = gate(contexts, items).exp()
    with torch.no_grad():
        constant = torch.randn(N, dtype=torch.float64)
        gate.items -= constant
        gate.bias += constant
        gate.items += torch.randn(A, 1, dtype=torch.float64)  # the same for all nominators
    assert torch.allclose(gate(contexts, items).exp(), before, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_centred_gate_has_the_same_weights(kind: str) -> None:
    gate = small(kind, pools=partition() if kind == "user" else None).gate
    contexts, items, _ = examples()
    centred = gate.centred()
    assert torch.allclose(centred(contexts, items).exp(), gate(contexts, items).exp(), atol=1e-12)
    if hasattr(centred, "items"):
        assert centred.items.mean(0).abs().max() < 1e-12
        assert centred.items.mean(1).abs().max() < 1e-12


def test_a_new_gate_is_nearly_uniform() -> None:
    torch.manual_seed(0)
    weights = Gate("user_item", N, A, D).all(torch.randn(5, D)).exp()
    assert (weights - 1 / N).abs().max() < 0.02


def test_a_gate_of_features_weighs_items_with_equal_features_equally() -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    gate = Gate("features", N, 3, item_features=features)
    weights = gate.item_weights()
    assert torch.equal(weights[0], weights[2])


def test_a_gate_in_which_all_logits_are_0_is_uniform() -> None:
    gate = Gate("item", N, A)
    torch.nn.init.zeros_(gate.items)
    assert torch.allclose(gate.item_weights(), torch.full((A, N), 1 / N))


def test_items_have_no_weight_outside_their_pools() -> None:
    weights = small("item", pools=partition()).gate.item_weights()
    assert torch.equal(weights, partition().double())


def test_weights_without_a_context_are_refused_for_a_gate_of_contexts() -> None:
    with pytest.raises(ConfigError, match="no weights without a context"):
        small("user_item").gate.item_weights()


def test_a_gate_comes_back_from_its_settings_and_weights() -> None:
    for kind in KINDS:
        gate = small(kind, pools=partition()).gate
        again = Gate.build(gate.settings(), gate.state_dict())
        contexts, items, _ = examples()
        assert torch.equal(again(contexts, items), gate(contexts, items))


def test_bad_gates_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 'items'; did you mean item"):
        Gate("items", N, A)
    with pytest.raises(ConfigError, match="item features are needed"):
        Gate("features", N, A)
    with pytest.raises(DataError, match="features of item 1 are not all finite"):
        Gate("features", N, 2, item_features=torch.tensor([[0.0], [torch.nan]]))
    with pytest.raises(DataError, match=r"features of 8 items, got \[2, 1\]"):
        Gate("features", N, A, item_features=torch.zeros(2, 1))
    with pytest.raises(ConfigError, match="item 0 is in no pool"):
        Gate("item", N, A, pools=torch.zeros(A, N, dtype=torch.bool))
    with pytest.raises(ConfigError, match="at least one nominator and one item, got 0 and 8"):
        Gate("item", 0, A)
