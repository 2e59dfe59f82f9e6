import torch

from shortlist.evaluate import Scores
from shortlist.reproduce.claims import better


def scores(*values: float) -> Scores:
    return Scores({"recall@20": torch.tensor(values, dtype=torch.float64)}, {})


def test_a_claim_holds_only_when_every_seed_shows_it():
    up, down = (scores(0.5, 0.6, 0.7), scores(0.1, 0.2, 0.3)), (scores(0.1, 0.2, 0.3), scores(0.5, 0.6, 0.7))
    assert better("a > b", [up, up], [0, 1])["holds"]
    mixed = better("a > b", [up, down], [0, 1])
    assert not mixed["holds"]
    assert mixed["interval"][0] < 0 < mixed["interval"][1]
