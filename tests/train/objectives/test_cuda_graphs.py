"""Objectives of the experiments inside a recorded step of a GPU."""

import pytest
import torch

from shortlist.lab.experiments.full_stage.arms import TABLE3, Arm
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for

ARMS = [arm for arms in TABLE3.values() for arm in arms if arm.trained]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_a_recorded_step_gives_the_loss_of_a_plain_one(arm: Arm) -> None:
    device = torch.device("cuda")
    scores = [torch.randn((5, 6), device=device, requires_grad=True) for _ in range(2)]
    labels = torch.arange(6.0, device=device).flip(0).repeat(5, 1)
    mask = torch.ones((5, 6), dtype=torch.bool, device=device)
    objective = arm.make_objective(5.0)
    learned = {} if objective.log_a is None else {"log_a": objective.log_a.detach().to(device)}
    found = torch.zeros(5, device=device)

    def step() -> None:
        given = scores if arm.joint else scores[0]
        loss = objective.loss(given, labels, mask, **objective.values, **learned)
        loss.sum().backward()
        found.copy_(loss.detach())

    step()
    plain, stream = found.clone(), stream_for(device)
    with on(stream):
        recorded = Recorded(step, stream)
        for _ in range(8):
            recorded()
    assert torch.allclose(found, plain, atol=1e-5)
