"""Lists of a mixture against plain loops."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.mixture import nominate
from tests.models.mixture.worlds import A, N, examples, partition, small


def test_the_mixture_list_is_ordered_by_the_mixture_mean() -> None:
    model = small()
    contexts, _, _ = examples()
    items, scores = nominate(model, contexts, 3)
    every = model.mixture_scores(contexts)
    assert torch.equal(items, every.sort(1, descending=True).indices[:, :3])
    assert torch.equal(scores, every.gather(1, items))


@pytest.mark.parametrize("mode", ["nominate", "pool"])
def test_joined_lists_hold_what_the_nominators_nominate(mode: str) -> None:
    model = small("user_item", pools=partition() if mode == "pool" else None)
    contexts, _, _ = examples(5)
    items, scores = nominate(model, contexts, 2, mode)
    weights, predictions = model.gate.all(contexts).exp(), model.experts.all(contexts)
    for row in range(5):
        chosen, order = set[int](), dict[int, float]()
        for n in range(N):
            own = [a for a in range(A) if weights[row, a, n] > 0]
            value = {
                a: predictions[row, a, n].item() * (1.0 if mode == "pool" else weights[row, a, n].item())
                for a in own
            }
            if mode == "nominate":
                value = {a: max(one, 0.0) for a, one in value.items()}
            best = sorted(own, key=lambda a: -value[a])[:2]
            chosen |= {a for a in best if value[a] != 0.0}
            order |= {a: predictions[row, a, n].item() for a in best} if mode == "pool" else {}
        found = [a for a in items[row].tolist() if a >= 0]
        assert chosen <= set(found)
        if mode == "pool":
            assert found == sorted(order, key=lambda a: -order[a])
        else:
            mean = model.mixture_scores(contexts)[row]
            assert found == sorted(found, key=lambda a: -mean[a].item())
    assert bool((scores[:, 1:] <= scores[:, :-1]).all())


def test_a_list_that_has_ended_is_padded() -> None:
    pools = torch.zeros(A, N, dtype=torch.bool)
    pools[:, 0] = True
    items, scores = nominate(small("uniform", pools=pools), examples(2)[0], 2, "pool")
    assert items.shape == (2, 6)
    assert bool((items[:, 2:] == -1).all())
    assert bool((scores[:, 2:] == -torch.inf).all())


def test_more_items_than_there_are_give_all_of_them() -> None:
    items, _ = nominate(small(), examples(2)[0], 100)
    assert items.shape == (2, A)
    assert nominate(small(), examples(2)[0], 100, "nominate", limit=4)[0].shape == (2, 4)


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(ConfigError, match="got 'pools'; did you mean pool"):
        nominate(small(), examples(2)[0], 1, "pools")
    with pytest.raises(ConfigError, match="k of at least 1, got 0"):
        nominate(small(), examples(2)[0], 0)
