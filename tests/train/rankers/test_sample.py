"""A sample of what a scorer learned on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.stages.filters import Seen
from shortlist.train.rankers.sample import LOW, recorded
from tests.train.rankers.test_ranker import round_of


@dataclass(frozen=True, eq=False, repr=False)
class Twice(Scorer):
    """Twice the item's row, and no number for item 3."""

    def score(self, query: Query, found: Candidates) -> Tensor:
        return torch.where(found.items == 3, torch.nan, 2.0 * found.items)


ROUNDS = [round_of(seed) for seed in range(8)]


def test_every_row_is_a_candidate_with_its_score() -> None:
    told = recorded("rank", Twice(), ROUNDS, 0)
    assert set(told) == {
        f"rank.{what}" for what in ("items", "scores", "wanted", "pool", "request", "recall")
    }
    assert len(told["rank.items"]) == sum(int(one.found.valid.sum()) for one in ROUNDS)
    slow = torch.where(told["rank.items"] == 3, LOW, 2.0 * told["rank.items"])
    assert torch.equal(told["rank.scores"], slow.float())


def test_recall_counts_all_requests() -> None:
    found, wanted = recorded("rank", Twice(), ROUNDS, 0)["rank.recall"].tolist()
    assert found == sum(int(one.wanted.sum()) for one in ROUNDS)
    assert wanted == sum(int((one.truth >= 0).sum()) for one in ROUNDS)


def test_a_sample_holds_whole_requests() -> None:
    whole = recorded("rank", Twice(), ROUNDS, 0)["rank.request"]
    some = recorded("rank", Twice(), ROUNDS, 0, most=60)["rank.request"]
    assert 0 < len(some) <= 60
    for request in some.tolist():
        assert int((some == request).sum()) == int((whole == request).sum())
    assert torch.equal(some, recorded("rank", Twice(), ROUNDS, 0, most=60)["rank.request"])


def test_one_request_is_kept_even_where_it_is_too_long() -> None:
    assert len(recorded("rank", Twice(), ROUNDS, 0, most=1)["rank.request"].unique()) == 1


def test_what_does_not_score_or_learn_has_no_record() -> None:
    assert recorded("seen", Seen(), ROUNDS, 0) == {}
    assert recorded("rank", Twice(), [], 0) == {}
