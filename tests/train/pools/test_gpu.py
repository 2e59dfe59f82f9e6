"""Mixtures are trained on the device of their examples."""

import pytest
import torch

from shortlist.train.pools import PoolTraining, distil, finetune, fit_em, fit_sgd
from tests.train.pools.worlds import mixture, outcomes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("objective", ["likelihood", "item-likelihood", "mean-squares"])
def test_recorded_steps_learn_what_plain_ones_do(objective):
    triples, valid = outcomes(60), outcomes(30, seed=1)
    settings = PoolTraining(objective=objective, epochs=8, batch_size=120, entropy=0.01, restarts=2)
    there, here = (
        fit_sgd(mixture("user_item"), triples.to(device), valid.to(device), settings)
        for device in ("cuda", "cpu")
    )
    assert there.model.log_sigma.is_cuda
    assert there.value > here.value - 0.1 * abs(here.value)


def test_pools_are_distilled_and_fine_tuned_there():
    triples = outcomes(40).to("cuda")
    fit = fit_sgd(mixture(), triples, training=PoolTraining(epochs=2, batch_size=120, restarts=1))
    tuned = finetune(
        fit.model, distil(fit.model, triples), "gate", triples, training=PoolTraining(batch_size=120)
    )
    assert tuned.model.experts.items.is_cuda
    assert fit_em(mixture(), triples, iterations=2).model.experts.items.is_cuda
