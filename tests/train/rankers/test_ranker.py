"""Rankers taught for what they will be served."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from shortlist.data import Candidates, Catalog, Interactions, Query, Vocabulary
from shortlist.errors import ConfigError, DataError
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.ranker import (
    MODES,
    NEGATIVES,
    RankerTrainer,
    RankingLists,
    TrainingSet,
    known,
    loss_of,
)

N = 40


def round_of(seed: int, users: int = 6, found: int = 12, positives_per_request: int = 5) -> RequestBatch:
    """Requests with distinct candidates and wants; about half of what is wanted is found."""
    rng = np.random.default_rng(seed)
    items = np.stack([rng.permutation(N)[:found] for _ in range(users)])
    truth = np.stack([rng.permutation(N)[:positives_per_request] for _ in range(users)])
    truth[0, -1] = -1
    named = Candidates.of(
        torch.from_numpy(items),
        torch.from_numpy(rng.random((users, found))),
        {"a.rank": torch.from_numpy(rng.random((users, found)).astype(np.float32))},
    )
    query = Query.of([[int(i) for i in rng.permutation(N)[:4]] for _ in range(users)])
    return RequestBatch(query, named.keep(named.items != items[0, 0]), torch.from_numpy(truth))


def lessons(count: int = 10, **given: object) -> TrainingSet:
    trainer = RankerTrainer(**{"n_negatives": 6, "positives_per_request": 3, **given})  # type: ignore[arg-type]
    return TrainingSet(trainer, [round_of(seed) for seed in range(count)], N, 0)


def rows_of(lists: RankingLists) -> list[tuple[list[int], list[int]]]:
    return list(zip(lists.query.history.tolist(), lists.found.items.tolist(), strict=True))


def test_only_what_is_found_is_learned_from_when_harmonised() -> None:
    one = lessons(mode="harmonised")
    for number, asked in enumerate(one.taught):
        lists = one.lists(number, 0)
        assert lists is not None
        there = {tuple(h): set(i) for h, i in zip(asked.query.history.tolist(), _valid(asked), strict=True)}
        for history, items in rows_of(lists):
            assert items[0] in there[tuple(history)]


def _valid(asked: RequestBatch) -> list[list[int]]:
    return [row[ok].tolist() for row, ok in zip(asked.found.items, asked.found.valid, strict=True)]


def test_everything_wanted_is_learned_from_when_original() -> None:
    one = lessons(mode="original", positives_per_request=100)
    lists = one.lists(0, 0)
    assert lists is not None
    assert len(lists.weight) == int((one.taught[0].truth >= 0).sum())
    assert set(lists.weight.tolist()) == {1.0}


def test_mixed_weights_lie_between() -> None:
    one = lessons(mode="mixed", mix=0.5, positives_per_request=100)
    lists = one.lists(0, 0)
    assert lists is not None
    assert len(set(lists.weight.tolist())) == 2
    assert lists.weight.min() > 0
    assert one.weights.values.mean() == pytest.approx(1)


def test_weighted_instances_count_by_how_likely_they_are_found() -> None:
    one = lessons(mode="weighted")
    assert len(set(one.weights.values.round(9).tolist())) > 2
    assert one.weights.values.min() > 0


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_others_are_never_wanted_and_come_from_where_they_should(negatives: str) -> None:
    one = lessons(negatives=negatives, mode="original")
    for number, asked in enumerate(one.taught):
        lists = one.lists(number, 3)
        assert lists is not None
        named = {tuple(h): set(i) for h, i in zip(asked.query.history.tolist(), _valid(asked), strict=True)}
        positives_per_request = dict(
            zip(map(tuple, asked.query.history.tolist()), asked.truth.tolist(), strict=True)
        )
        for history, items in rows_of(lists):
            others = [item for item in items[1:] if item >= 0]
            assert not set(others) & set(positives_per_request[tuple(history)])
            near = {"catalogue": 0, "candidates": 6, "both": 3}[negatives]
            close = [item for item in items[1 : 1 + near] if item >= 0]
            assert set(close) <= named[tuple(history)]
            assert len(set(close)) == len(close)


def test_draws_from_the_catalogue_stand_for_all_of_it() -> None:
    """I20: over many epochs the corrected sums over draws expect the sum over all items that are not wanted."""
    one = lessons(negatives="catalogue", mode="original", count=1, positives_per_request=1)
    worth = np.random.default_rng(5).normal(size=N)
    sums: dict[tuple[int, ...], list[float]] = {}
    for epoch in range(400):
        lists = one.lists(0, epoch)
        assert lists is not None
        assert lists.shift[:, 0].eq(0).all()
        items = lists.found.items[:, 1:].numpy()
        n_negatives = np.where(items >= 0, np.exp(worth[items] + lists.shift[:, 1:].numpy()), 0.0).sum(1)
        for history, total in zip(lists.query.history.tolist(), n_negatives, strict=True):
            sums.setdefault(tuple(history), []).append(float(total))
    for history, positives_per_request in zip(
        one.taught[0].query.history.tolist(), one.taught[0].truth.tolist(), strict=True
    ):
        full = np.exp(np.delete(worth, [item for item in positives_per_request if item >= 0])).sum()
        found = np.array(sums[tuple(history)])
        assert abs(found.mean() - full) < 4 * found.std() / len(found) ** 0.5


def test_draws_of_two_kinds_are_not_corrected() -> None:
    for given in (
        {"negatives": "catalogue", "correct": False},
        {"negatives": "both"},
        {"negatives": "candidates"},
    ):
        lists = lessons(**given).lists(0, 0)
        assert lists is not None
        assert lists.shift.eq(0).all()


def test_what_was_found_keeps_its_columns_and_the_rest_has_none() -> None:
    asked = round_of(0)
    named = asked.found.items[1, 3]
    strange = next(item for item in range(N) if item not in asked.found.items[1].tolist())
    got = known(asked.found, torch.tensor([1]), torch.tensor([[int(named), strange, -1]]))
    assert got.columns["a.rank"][0, 0] == asked.found.columns["a.rank"][1, 3]
    assert got.columns["a.rank"][0, 1:].isnan().all()
    assert got.scores[0, 0] == asked.found.scores[1, 3]
    lowest = asked.found.scores[1][asked.found.valid[1]].min()
    assert got.scores[0, 1] == lowest
    assert got.valid.tolist() == [[True, True, False]]


def test_a_request_without_candidates_has_columns_all_the_same() -> None:
    nothing = Candidates.of(
        torch.empty((2, 0), dtype=torch.int64), torch.empty(2, 0), {"a.rank": torch.empty(2, 0)}
    )
    got = known(nothing, torch.tensor([1, 1]), torch.tensor([[3], [4]]))
    assert got.scores.tolist() == [[0.0], [0.0]]
    assert got.columns["a.rank"].isnan().all()


def test_the_same_epoch_is_the_same_and_another_is_another() -> None:
    one = lessons()
    first, again, other = (one.lists(0, epoch) for epoch in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first.found.items, again.found.items)
    assert first.found.items.shape != other.found.items.shape or not torch.equal(
        first.found.items, other.found.items
    )


def test_the_loss_of_a_list_is_the_softmax_of_its_first() -> None:
    items = torch.tensor([[1, 2, 3], [4, 5, -1]])
    lists = RankingLists(
        Query.of([[1], [2]]), Candidates.of(items, items.float()), torch.zeros(2, 3), torch.tensor([1.0, 3.0])
    )

    def score(query: Query, found: Candidates) -> Tensor:
        return found.items.float() / 2

    slow = [
        -np.log(np.exp(0.5) / np.exp([0.5, 1, 1.5]).sum()),
        -np.log(np.exp(2) / np.exp([2, 2.5]).sum()),
    ]
    assert float(loss_of(score, lists)) == pytest.approx((slow[0] + 3 * slow[1]) / 4)


class Table(nn.Module):
    """A number for every item."""

    def __init__(self) -> None:
        super().__init__()
        self.worth = nn.Parameter(torch.zeros(N))

    def score(self, query: Query, found: Candidates) -> Tensor:
        return self.worth[found.items.clamp(min=0)]


def context(rounds: tuple[RequestBatch, ...], told: dict[str, object]) -> TrainContext:
    vocabulary = Vocabulary.of([str(row) for row in range(N)])
    events = Interactions.of(np.zeros(1, int), np.zeros(1, int), np.zeros(1), None, 1, N)

    def note(name: str, facts: object) -> None:
        told[name] = facts

    return TrainContext(events, Catalog.bare(vocabulary), rounds=rounds, note=note)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_what_is_always_wanted_rises_in_every_mode(mode: str, negatives: str) -> None:
    rounds = []
    for seed in range(10):
        one = round_of(seed)
        items = one.found.items.clone()
        items[items == 7] = 8
        items[:, 0] = 7
        truth = torch.full_like(one.truth, -1)
        truth[:, 0] = 7
        truth[:, 1] = 9
        rounds.append(RequestBatch(one.query, replace(one.found, items=items), truth))
    table, told = Table(), dict[str, object]()
    trainer = RankerTrainer(mode=mode, negatives=negatives, n_negatives=6, epochs=5, learning_rate=0.1)
    trainer.learn(table, table.score, context(tuple(rounds), told), "rank")
    assert int(table.worth.argmax()) in (7, 9)
    facts = told["rank"]
    assert isinstance(facts, dict)
    assert facts["mode"] == mode
    assert facts["harmony"]["recall"] > 0
    assert facts["converged"] is not None


def test_little_recall_is_warned_of_with_numbers() -> None:
    told: dict[str, object] = {}
    rounds = tuple(round_of(seed, found=2) for seed in range(10))
    table = Table()
    RankerTrainer(epochs=1).learn(table, table.score, context(rounds, told), "rank")
    facts = told["rank"]
    assert isinstance(facts, dict)
    assert any("wanted items are among the candidates" in one for one in facts["warnings"])
    RankerTrainer(mode="original", epochs=1).learn(table, table.score, context(rounds, told), "rank")
    assert told["rank"]["warnings"] == []  # type: ignore[index]


def test_nothing_found_at_all_is_refused_but_for_the_original_mode() -> None:
    rounds = tuple(replace(one, found=one.found.keep(~one.wanted)) for one in map(round_of, range(10)))
    table = Table()
    with pytest.raises(DataError, match="mode = 'original'"):
        RankerTrainer(epochs=1).learn(table, table.score, context(rounds, {}), "rank")
    RankerTrainer(mode="original", epochs=1).learn(table, table.score, context(rounds, {}), "rank")


def test_the_weights_that_are_used_say_what_they_leave() -> None:
    for mode in MODES:
        one = lessons(mode=mode)
        assert one.advice.effective == pytest.approx(one.weights.effective)
    assert lessons(mode="weighted").advice.effective > lessons(mode="harmonised").advice.effective


def test_wanted_items_outside_the_catalogue_are_not_learned_from() -> None:
    rounds = [round_of(seed) for seed in range(10)]
    strange = [replace(one, truth=one.truth.masked_fill(one.truth == 3, N + 5)) for one in rounds]
    bare = [replace(one, truth=one.truth.masked_fill(one.truth == 3, -1)) for one in rounds]
    trainer = RankerTrainer(mode="original", n_negatives=6)
    assert TrainingSet(trainer, strange, N, 0).advice == TrainingSet(trainer, bare, N, 0).advice


def test_a_ranker_without_requests_is_refused() -> None:
    with pytest.raises(ConfigError, match="rank: a ranker learns from rehearsed requests"):
        RankerTrainer().learn(Table(), Table().score, context((), {}), "rank")


@pytest.mark.parametrize("wrong", [{"mode": "other"}, {"negatives": "none"}, {"calibrate": "yes"}])
def test_words_that_mean_nothing_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="must be one of"):
        RankerTrainer(**wrong)


def test_few_rounds_are_all_learned_from() -> None:
    few = lessons(count=3)
    assert len(few.taught) == 3
    assert few.held == []
    assert len(lessons(count=10).held) == 2


def test_candidates_as_negatives_without_the_filter_are_warned_of() -> None:
    """In `bounds-table1` it costs most of all: the not retrieved are only ever seen as wanted."""
    for mode in MODES:
        told = lessons(mode=mode, negatives="candidates").told()["warnings"]
        assert any("use mode = 'harmonised'" in one for one in told) == (mode != "harmonised")
        assert not any("use mode" in one for one in lessons(mode=mode, negatives="both").told()["warnings"])
