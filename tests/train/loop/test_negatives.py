import numpy as np
import pytest
import torch

from shortlist.train.loop.negatives import Proposal

CPU = torch.device("cpu")
POPULARITY = np.array([0, 3, 8, 99])


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.0, [0.25] * 4),
        (0.5, [1 / 16, 2 / 16, 3 / 16, 10 / 16]),
        (1.0, [1 / 114, 4 / 114, 9 / 114, 100 / 114]),
    ],
)
def test_shares_are_events_and_one_more_to_a_power(alpha, expected):
    assert Proposal.of(POPULARITY, alpha, CPU).share.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_items_are_drawn_as_often_as_their_share_says(alpha):
    """200,000 draws: the frequencies lie within five standard deviations of the shares."""
    proposal, count = Proposal.of(POPULARITY, alpha, CPU), 200_000
    torch.manual_seed(0)
    drawn = proposal.draw((count // 4, 4))
    assert drawn.shape == (count // 4, 4)
    often = torch.bincount(drawn.flatten(), minlength=4) / count
    spread = (proposal.share * (1 - proposal.share) / count).sqrt()
    assert ((often - proposal.share).abs() < 5 * spread).all()


def test_an_item_without_events_can_be_drawn():
    torch.manual_seed(0)
    assert (Proposal.of(POPULARITY, 1.0, CPU).draw((2000,)) == 0).any()


def test_the_log_of_what_is_expected_is_that_of_share_times_draws():
    proposal = Proposal.of(POPULARITY, 0.5, CPU)
    found = proposal.log_expected(torch.tensor([[3, 0], [1, 3]]), 32).exp()
    assert found.flatten().tolist() == pytest.approx([20.0, 2.0, 4.0, 20.0])


def test_the_global_generator_decides_what_is_drawn():
    proposal = Proposal.of(POPULARITY, 0.5, CPU)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(proposal.draw((50,)))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_the_ends_of_chance_are_items_too(monkeypatch):
    """A chance of 0 is the first item, one that rounding puts above the last edge is the last."""
    proposal = Proposal.of(np.ones(7), 1.0, CPU)
    for chance, item in ((0.0, 0), (1.0, 6)):
        monkeypatch.setattr(torch, "rand", lambda shape, device, chance=chance: torch.full(shape, chance))
        assert proposal.draw((3,)).tolist() == [item] * 3
