import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from shortlist.models.fold_in import Problem, fold_in, sums_of

ITEMS, WIDTH, PRIOR = 30, 4, 0.5


def world(users=5, seed=0):
    torch.manual_seed(seed)
    items, mean = torch.randn(ITEMS, WIDTH, dtype=torch.float64), torch.randn(WIDTH, dtype=torch.float64) / 3
    histories = [torch.randint(ITEMS, (length,)) for length in (0, 1, 3, 20, 200)[:users]]
    return items, mean, histories


def fitted(items, mean, histories, prior=PRIOR):
    lengths = torch.tensor([len(one) for one in histories])
    return fold_in(sums_of(torch.cat(histories), items, lengths), lengths, items, mean, prior)


def oracle(items, mean, history, prior=PRIOR):
    """One event after the other, minimised by scipy."""
    x, m, rows = items.numpy(), mean.numpy(), history.numpy()

    def loss(vector):
        scores = x @ vector
        total = sum(np.logaddexp.reduce(scores) - scores[row] for row in rows)
        return total + prior * ((vector - m) ** 2).sum()

    return minimize(loss, m, method="BFGS", options={"gtol": 1e-9}).x


def test_vector_minimises_the_loss_of_the_events_and_the_prior():
    items, mean, histories = world()
    found = fitted(items, mean, histories)
    expected = np.stack([oracle(items, mean, one) for one in histories])
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)


def test_user_without_events_has_the_mean():
    items, mean, _ = world()
    assert torch.equal(fitted(items, mean, [torch.zeros(0, dtype=torch.int64)])[0], mean)


def test_vector_of_a_user_does_not_depend_on_the_other_users():
    items, mean, histories = world()
    together, alone = fitted(items, mean, histories), fitted(items, mean, histories[3:4])
    torch.testing.assert_close(together[3:4], alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("prior", [1e-3, 1e3])
def test_prior_moves_vectors_to_the_mean(prior):
    items, mean, histories = world()
    away = (fitted(items, mean, histories, prior) - mean).norm(dim=1)
    assert bool((away[1:] < 0.2).all()) == (prior > 1)


def test_users_who_are_done_are_not_computed_again(monkeypatch):
    computed, value = [], Problem.value

    def counted(problem, vectors):
        computed.append(len(vectors))
        return value(problem, vectors)

    monkeypatch.setattr(Problem, "value", counted)
    items, mean, histories = world()
    fitted(items.float(), mean.float(), histories)
    assert computed[0] == len(histories)
    assert computed[1] == len(histories) - 1  # the user without events is at the mean
    assert computed[-1] < computed[1]
    assert sum(computed) < 40 * len(histories)  # float32 cannot always lower the loss further


def test_no_users_give_no_vectors():
    items, mean, _ = world()
    nothing = torch.zeros(0, WIDTH, dtype=torch.float64)
    assert fold_in(nothing, torch.zeros(0), items, mean, PRIOR).shape == (0, WIDTH)
