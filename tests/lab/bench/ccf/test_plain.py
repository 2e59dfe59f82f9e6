import pytest
import torch

from shortlist.lab.bench.ccf.job import difference, trainer_of
from shortlist.lab.bench.ccf.plain import OPTIMIZERS, PlainLoop
from shortlist.lab.bench.ccf.power_law_log import power_law_log
from shortlist.lab.bench.ccf.sizes import SIZES
from shortlist.train.models.ccf import OfferBatches

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def parts():
    """A trainer, a new model, the batches of a small log and the positions of the first one."""
    torch.manual_seed(0)
    events, trainer = power_law_log(40, 30, 600, seed=0), trainer_of(SIZES["quick"])
    data = OfferBatches.of(events, CPU, mask_history=False)
    return trainer, trainer.begin(events, None).train(), data, next(data.positions(0, 0, 128))


def test_loss_and_gradients_equal_ours(parts):
    trainer, model, data, at = parts
    loop = PlainLoop(trainer, model, data, "adagrad")
    assert difference(trainer, model, data, loop, at) < 1e-5
    before = model.mean_user.clone()
    with torch.no_grad():
        ours = trainer.loss_of(model, data, at, torch.Generator().manual_seed(1))
        plain = loop.loss(at, torch.Generator().manual_seed(1))
    assert plain.item() == pytest.approx(ours.item(), rel=1e-5)
    assert torch.allclose(loop.mean, model.mean_user, atol=1e-6)
    model.mean_user.copy_(before)


def test_another_loss_differs(parts):
    trainer, model, data, at = parts
    other = PlainLoop(trainer.with_settings(correction=False, prior_weight=5.0), model, data, "adagrad")
    assert difference(trainer, model, data, other, at) > 1e-3


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_lowers_the_loss_of_its_batch(parts, name):
    trainer, model, data, at = parts
    loop = PlainLoop(trainer.with_settings(table_learning_rate=0.01), model, data, name)
    losses = []
    for _ in range(5):
        with torch.no_grad():
            losses.append(loop.loss(at, torch.Generator().manual_seed(1)).item())
        loop.step(at, torch.Generator().manual_seed(1))
    assert losses[-1] < losses[0]
