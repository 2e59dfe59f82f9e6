"""A sample of the candidates a scorer was trained on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.stages.filters import Seen
from shortlist.train.rankers.training_data.sample import LOW, training_sample
from tests.train.rankers.test_training_set import batch_of


@dataclass(frozen=True, eq=False, repr=False)
class Twice(Scorer):
    """Twice the item's row, and no number for item 3."""

    def score(self, query: Query, found: Candidates) -> Tensor:
        return torch.where(found.items == 3, torch.nan, 2.0 * found.items)


BATCHES = [batch_of(seed) for seed in range(8)]


def test_every_row_is_a_candidate_with_its_score() -> None:
    sample = training_sample("rank", Twice(), BATCHES, 0)
    assert set(sample) == {
        f"rank.{what}" for what in ("items", "scores", "target", "pool", "request", "recall")
    }
    assert len(sample["rank.items"]) == sum(int(one.found.valid.sum()) for one in BATCHES)
    slow = torch.where(sample["rank.items"] == 3, LOW, 2.0 * sample["rank.items"])
    assert torch.equal(sample["rank.scores"], slow.float())


def test_recall_counts_all_requests() -> None:
    found, targets = training_sample("rank", Twice(), BATCHES, 0)["rank.recall"].tolist()
    assert found == sum(int(one.is_target.sum()) for one in BATCHES)
    assert targets == sum(int((one.targets >= 0).sum()) for one in BATCHES)


def test_sample_holds_whole_requests() -> None:
    whole = training_sample("rank", Twice(), BATCHES, 0)["rank.request"]
    some = training_sample("rank", Twice(), BATCHES, 0, most=60)["rank.request"]
    assert 0 < len(some) <= 60
    for request in some.tolist():
        assert int((some == request).sum()) == int((whole == request).sum())
    assert torch.equal(some, training_sample("rank", Twice(), BATCHES, 0, most=60)["rank.request"])


def test_one_request_is_kept_even_if_it_is_too_long() -> None:
    assert len(training_sample("rank", Twice(), BATCHES, 0, most=1)["rank.request"].unique()) == 1


def test_stages_that_are_no_trained_scorers_have_no_sample() -> None:
    assert training_sample("seen", Seen(), BATCHES, 0) == {}
    assert training_sample("rank", Twice(), [], 0) == {}
