import pytest
import torch

from shortlist.lab.experiments.full_stage.arms import (
    ABLATIONS,
    ALL_STAGES,
    MIXTURES,
    PRERANK,
    PRERANK_ARMS,
    RETRIEVAL,
    RETRIEVAL_ARMS,
    SERVING,
    TABLE3,
    Arm,
    counts,
)

TRAINED = [arm for arm in (*RETRIEVAL_ARMS, *PRERANK_ARMS, *ABLATIONS, *MIXTURES) if arm.trained]


@pytest.mark.parametrize("arm", [*RETRIEVAL_ARMS, *PRERANK_ARMS], ids=lambda arm: arm.name)
def test_all_arms_of_table_3_have_five_negatives(arm) -> None:
    assert not arm.trained or sum(dict(arm.negatives).values()) == 5


def test_every_table_begins_with_random_and_ends_with_the_oracle() -> None:
    assert set(TABLE3) == {RETRIEVAL, PRERANK}
    for arms in TABLE3.values():
        assert (arms[0].name, arms[-1].name) == ("random", "oracle")
        assert len({arm.name for arm in arms}) == len(arms)


def test_capacities_are_what_stages_kept_of_the_logged_request() -> None:
    assert Arm("a", "lcron", ALL_STAGES).capacities == (4, 3)
    assert Arm("a", "rankflow", SERVING).capacities == (4, 2)
    assert Arm("a", "bpr", counts(random=5)).capacities == (1, 1)
    assert Arm("a", "lcron", ALL_STAGES, cuts=(1, 2)).capacities == (1, 2)


@pytest.mark.parametrize("arm", TRAINED, ids=lambda arm: arm.name)
def test_every_objective_has_a_finite_loss_and_a_gradient(arm) -> None:
    count = 1 + sum(dict(arm.negatives).values())
    scores = [torch.randn(3, count, requires_grad=True) for _ in range(1 + arm.joint)]
    labels = torch.arange(count, 0, -1.0).expand(3, -1)
    objective = arm.make_objective(float(count))
    losses = objective(scores if arm.joint else scores[0], labels, torch.ones(3, count, dtype=torch.bool))
    losses.sum().backward()
    assert losses.shape == (3,)
    assert torch.isfinite(losses).all()
    assert scores[0].grad.abs().sum() > 0


def test_pre_ranking_is_not_trained_on_items_it_never_gets() -> None:
    assert all(0 not in dict(arm.negatives) for arm in PRERANK_ARMS if arm.trained)
