"""The training set of a ranker: targets, weights, negatives and warnings."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.training_data.training_set import (
    MODES,
    NEGATIVES,
    ListSampling,
    RankingLists,
    TrainingSet,
    candidates_of,
    with_fewer_negatives,
)

N = 40


def batch_of(seed: int, users: int = 6, found: int = 12, n_targets: int = 5) -> RequestBatch:
    """Requests with distinct candidates and targets; about a third of the targets are candidates."""
    rng = np.random.default_rng(seed)
    items = np.stack([rng.permutation(N)[:found] for _ in range(users)])
    targets = np.stack([rng.permutation(N)[:n_targets] for _ in range(users)])
    targets[0, -1] = -1
    nominated = Candidates.of(
        torch.from_numpy(items),
        torch.from_numpy(rng.random((users, found))),
        {"a.rank": torch.from_numpy(rng.random((users, found)).astype(np.float32))},
    )
    query = Query.of([[int(i) for i in rng.permutation(N)[:4]] for _ in range(users)])
    return RequestBatch(query, nominated.keep(nominated.items != items[0, 0]), torch.from_numpy(targets))


def training_set(count: int = 10, **given: object) -> TrainingSet:
    sampling = ListSampling(**{"n_negatives": 6, "positives_per_request": 3, **given})  # type: ignore[arg-type]
    return TrainingSet(sampling, [batch_of(seed) for seed in range(count)], N, 0)


def rows_of(lists: RankingLists) -> list[tuple[list[int], list[int]]]:
    return list(zip(lists.query.history.tolist(), lists.found.items.tolist(), strict=True))


def test_harmonised_trains_on_retrieved_targets_only() -> None:
    one = training_set(mode="harmonised")
    for number, batch in enumerate(one.training):
        lists = one.lists(number, 0)
        assert lists is not None
        candidates = {
            tuple(h): set(i) for h, i in zip(batch.query.history.tolist(), _valid(batch), strict=True)
        }
        for history, items in rows_of(lists):
            assert items[0] in candidates[tuple(history)]


def _valid(batch: RequestBatch) -> list[list[int]]:
    return [row[ok].tolist() for row, ok in zip(batch.found.items, batch.found.valid, strict=True)]


def test_original_trains_on_all_targets_with_equal_weight() -> None:
    one = training_set(mode="original", positives_per_request=100)
    lists = one.lists(0, 0)
    assert lists is not None
    assert len(lists.weight) == int((one.training[0].targets >= 0).sum())
    assert set(lists.weight[:, 0].tolist()) == {1.0}


def test_mixed_has_two_weights_above_zero() -> None:
    one = training_set(mode="mixed", mix=0.5, positives_per_request=100)
    lists = one.lists(0, 0)
    assert lists is not None
    assert len(set(lists.weight[:, 0].tolist())) == 2
    assert lists.weight[:, 0].min() > 0
    assert one.weights.values.mean() == pytest.approx(1)


def test_weighted_has_a_positive_weight_for_every_target() -> None:
    one = training_set(mode="weighted")
    assert len(set(one.weights.values.round(9).tolist())) > 2
    assert one.weights.values.min() > 0


@pytest.mark.parametrize("negatives", ["catalogue", "candidates", "both"])
def test_negatives_are_no_targets_and_come_from_their_source(negatives: str) -> None:
    one = training_set(negatives=negatives, mode="original")
    for number, batch in enumerate(one.training):
        lists = one.lists(number, 3)
        assert lists is not None
        candidates = {
            tuple(h): set(i) for h, i in zip(batch.query.history.tolist(), _valid(batch), strict=True)
        }
        targets = dict(zip(map(tuple, batch.query.history.tolist()), batch.targets.tolist(), strict=True))
        for history, items in rows_of(lists):
            others = [item for item in items[1:] if item >= 0]
            assert not set(others) & set(targets[tuple(history)])
            near = {"catalogue": 0, "candidates": 6, "both": 3}[negatives]
            close = [item for item in items[1 : 1 + near] if item >= 0]
            assert set(close) <= candidates[tuple(history)]
            assert len(set(close)) == len(close)


def test_corrected_catalogue_negatives_estimate_the_full_softmax() -> None:
    """I20: over many epochs the corrected sums over samples expect the sum over all items that are no targets."""
    one = training_set(negatives="catalogue", mode="original", count=1, positives_per_request=1)
    worth = np.random.default_rng(5).normal(size=N)
    sums: dict[tuple[int, ...], list[float]] = {}
    for epoch in range(400):
        lists = one.lists(0, epoch)
        assert lists is not None
        assert lists.logit_shift[:, 0].eq(0).all()
        items = lists.found.items[:, 1:].numpy()
        sampled = np.where(items >= 0, np.exp(worth[items] + lists.logit_shift[:, 1:].numpy()), 0.0).sum(1)
        for history, total in zip(lists.query.history.tolist(), sampled, strict=True):
            sums.setdefault(tuple(history), []).append(float(total))
    for history, targets in zip(
        one.training[0].query.history.tolist(), one.training[0].targets.tolist(), strict=True
    ):
        full = np.exp(np.delete(worth, [item for item in (*targets, *history) if item >= 0])).sum()
        found = np.array(sums[tuple(history)])
        assert abs(found.mean() - full) < 4 * found.std() / len(found) ** 0.5


def test_only_pure_catalogue_negatives_are_corrected() -> None:
    for given in (
        {"negatives": "catalogue", "logq_correction": False},
        {"negatives": "both"},
        {"negatives": "candidates"},
    ):
        lists = training_set(**given).lists(0, 0)
        assert lists is not None
        assert lists.logit_shift.eq(0).all()


def test_retrieved_items_keep_their_columns_and_others_have_none() -> None:
    batch = batch_of(0)
    retrieved = batch.found.items[1, 3]
    other = next(item for item in range(N) if item not in batch.found.items[1].tolist())
    got = candidates_of(batch.found, torch.tensor([1]), torch.tensor([[int(retrieved), other, -1]]))
    assert got.columns["a.rank"][0, 0] == batch.found.columns["a.rank"][1, 3]
    assert got.columns["a.rank"][0, 1:].isnan().all()
    assert got.scores[0, 0] == batch.found.scores[1, 3]
    lowest = batch.found.scores[1][batch.found.valid[1]].min()
    assert got.scores[0, 1] == lowest
    assert got.valid.tolist() == [[True, True, False]]


def test_request_without_candidates_has_columns() -> None:
    nothing = Candidates.of(
        torch.empty((2, 0), dtype=torch.int64), torch.empty(2, 0), {"a.rank": torch.empty(2, 0)}
    )
    got = candidates_of(nothing, torch.tensor([1, 1]), torch.tensor([[3], [4]]))
    assert got.scores.tolist() == [[0.0], [0.0]]
    assert got.columns["a.rank"].isnan().all()


def test_lists_depend_on_the_epoch_alone() -> None:
    one = training_set()
    first, again, other = (one.lists(0, epoch) for epoch in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first.found.items, again.found.items)
    assert first.found.items.shape != other.found.items.shape or not torch.equal(
        first.found.items, other.found.items
    )


def test_effective_share_is_that_of_the_weights() -> None:
    for mode in MODES:
        one = training_set(mode=mode)
        assert one.retrieved.effective_share == pytest.approx(one.weights.effective_share)
    assert (
        training_set(mode="weighted").retrieved.effective_share
        > training_set(mode="harmonised").retrieved.effective_share
    )


def test_targets_outside_the_catalogue_are_ignored() -> None:
    rounds = [batch_of(seed) for seed in range(10)]
    outside = [replace(one, targets=one.targets.masked_fill(one.targets == 3, N + 5)) for one in rounds]
    bare = [replace(one, targets=one.targets.masked_fill(one.targets == 3, -1)) for one in rounds]
    sampling = ListSampling(mode="original", n_negatives=6)
    assert TrainingSet(sampling, outside, N, 0).retrieved == TrainingSet(sampling, bare, N, 0).retrieved


def test_few_batches_are_all_trained_on() -> None:
    few = training_set(count=3)
    assert len(few.training) == 3
    assert few.validation == []
    assert len(training_set(count=10).validation) == 2


def test_candidates_as_negatives_of_missed_targets_are_warned_of() -> None:
    """Targets that were not retrieved occur only as positives, so the ranker prefers them to every candidate."""
    for mode in MODES:
        for negatives in ("candidates", "all-candidates"):
            warnings = training_set(mode=mode, negatives=negatives).warnings
            assert any("use mode = 'harmonised'" in one for one in warnings) == (mode != "harmonised")
        assert not any("use mode" in one for one in training_set(mode=mode, negatives="both").warnings)


def test_all_candidates_of_a_request_are_one_list() -> None:
    one = training_set(negatives="all-candidates", mode="harmonised")
    for number, batch in enumerate(one.training):
        lists = one.lists(number, 0)
        assert lists is not None
        assert lists is one.lists(number, 7)
        assert torch.equal(lists.found.items, batch.found.items)
        assert torch.equal(lists.is_target, batch.is_target)
        assert torch.equal(lists.weight > 0, batch.is_target)


def test_missed_targets_are_added_to_all_candidates_when_they_have_weight() -> None:
    one = training_set(negatives="all-candidates", mode="original")
    for number, batch in enumerate(one.training):
        lists = one.lists(number, 0)
        assert lists is not None
        for row, targets in enumerate(batch.targets.tolist()):
            listed = lists.found.items[row][lists.weight[row] > 0].tolist()
            assert sorted(listed) == sorted(item for item in targets if item >= 0)
            assert torch.equal(lists.weight[row] > 0, lists.is_target[row])


@pytest.mark.parametrize("negatives", ["both", "all-candidates"])
def test_weights_of_events_multiply_those_of_targets(negatives: str) -> None:
    one = training_set(negatives=negatives)
    item_weights = torch.rand(N, generator=torch.Generator().manual_seed(0)) + 0.5
    batches = [replace(each, weights=item_weights[each.targets.clamp(min=0)]) for each in one.batches]
    two = replace(one, batches=batches)
    for number in range(len(one.training)):
        plain, weighted = one.lists(number, 0), two.lists(number, 0)
        assert plain is not None
        assert weighted is not None
        assert torch.equal(plain.found.items, weighted.found.items)
        expected = plain.weight * item_weights[plain.found.items.clamp(min=0)]
        assert torch.allclose(weighted.weight, expected)


@pytest.mark.parametrize("negatives", NEGATIVES)
def test_targets_and_later_items_are_never_negatives(negatives: str) -> None:
    batches = []
    for seed in range(10):
        one = batch_of(seed)
        candidates = one.found.items.masked_fill(~one.found.valid, -1)
        later = torch.cat([candidates[:, :3], torch.full((len(candidates), 1), 39)], dim=1)
        batches.append(replace(one, later=later))
    sampling = ListSampling(negatives=negatives, n_negatives=20, negatives_per_request=4)
    one = TrainingSet(sampling, batches, N, 0)
    excluded = {
        tuple(history): ({*targets} - {-1}, {*later} - {-1})
        for batch in batches
        for history, targets, later in zip(
            batch.query.history.tolist(), batch.targets.tolist(), batch.later.tolist(), strict=True
        )
    }
    checked = 0
    for number in range(len(one.training)):
        lists = one.lists(number, 0)
        assert lists is not None
        negative = (lists.found.valid & ~lists.is_target).tolist()
        for (history, items), flags in zip(rows_of(lists), negative, strict=True):
            targets, later = excluded[tuple(history)]
            own = {item for item, flag in zip(items, flags, strict=True) if flag}
            assert own.isdisjoint(targets | later)
            checked += len(own)
    assert checked
    for batch in one.validation:
        for row, history in enumerate(batch.query.history.tolist()):
            targets, later = excluded[tuple(history)]
            assert {*batch.found.items[row][batch.found.valid[row]].tolist()}.isdisjoint(later - targets)


def test_history_is_never_sampled_from_the_catalogue() -> None:
    one = training_set(negatives="catalogue", n_negatives=60)
    for epoch in range(5):
        lists = one.lists(0, epoch)
        assert lists is not None
        for history, items in rows_of(lists):
            assert {*items[1:]}.isdisjoint(history)


@pytest.mark.parametrize("most", [1, 3, 4, 20])
def test_fewer_negatives_are_random_and_keep_all_targets(most: int) -> None:
    batch = batch_of(3)
    fewer = with_fewer_negatives(batch, most, seed=0)
    for row in range(len(batch.targets)):
        valid = batch.found.valid[row] & ~batch.is_target[row]
        every = batch.found.items[row][valid].tolist()
        kept = fewer.found.items[row][fewer.found.valid[row]].tolist()
        targets = batch.found.items[row][batch.is_target[row]].tolist()
        negatives = [item for item in kept if item not in targets]
        assert {*targets} <= {*kept}
        assert len(kept) == len({*kept})
        assert len(negatives) == min(most, len(every))
        assert {*negatives} <= {*every}


def test_number_of_negatives_of_a_request_is_limited() -> None:
    lists = training_set(negatives="all-candidates", negatives_per_request=3).lists(0, 0)
    whole = training_set(negatives="all-candidates", negatives_per_request=0).lists(0, 0)
    assert lists is not None
    assert whole is not None
    assert int((lists.found.valid & ~lists.is_target).sum(1).max()) == 3
    assert int((whole.found.valid & ~whole.is_target).sum(1).max()) > 3
    assert torch.equal(lists.is_target.sum(1), whole.is_target.sum(1))


def test_every_negative_is_kept_equally_often() -> None:
    batch = batch_of(3)
    negative = batch.found.valid[1] & ~batch.is_target[1]
    every = batch.found.items[1][negative].tolist()
    counts = dict.fromkeys(every, 0)
    for seed in range(400):
        found = with_fewer_negatives(batch, 4, seed).found
        for item in found.items[1][found.valid[1]].tolist():
            if item in counts:
                counts[item] += 1
    share, error = 4 / len(every), (4 / len(every) / 400) ** 0.5
    assert all(abs(count / 400 - share) < 4 * error for count in counts.values())
