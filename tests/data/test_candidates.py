"""Candidates, and the pool of several nominators."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Candidates, Note, merge
from shortlist.data.candidates import RRF, first_positions, repeats

nan = math.nan


def of(items, scores=None, columns=None):
    items = torch.tensor(items, dtype=torch.int64)
    scores = torch.zeros(items.shape) if scores is None else torch.tensor(scores, dtype=torch.float32)
    return Candidates.of(items, scores, columns)


def test_negative_items_are_empty_positions():
    found = of([[3, -1, 5]])
    assert found.valid.tolist() == [[True, False, True]]
    assert found.slot.tolist() == [[0, 1, 2]]
    assert found.shape == (1, 3)
    assert Candidates.none(4).shape == (4, 0)


def test_a_removed_candidate_cannot_come_back():
    found = (
        of([[1, 2, 3]]).keep(torch.tensor([[True, False, True]])).keep(torch.tensor([[True, True, False]]))
    )
    assert found.valid.tolist() == [[True, False, False]]


def test_best_sorts_by_score_with_stable_ties_and_non_finite_scores_last():
    found = of([[0, 1, 2, 3, 4, -1, 6]], [[nan, 1.0, -1e38, 1.0, math.inf, 9.0, -math.inf]])
    best = found.best(7)
    assert best.items[best.valid].tolist() == [1, 3, 2, 0, 4, 6]
    assert best.slot[0].tolist() == [1, 3, 2, 0, 4, 6, 5]
    assert found.best(2).items.tolist() == [[1, 3]]
    assert found.best(99).shape == (1, 7)


def test_take_gathers_columns_and_negative_positions_are_empty():
    found = of([[5, 6, 7]], [[1, 2, 3]], {"age": torch.tensor([[10, 20, 30]])}).take(
        torch.tensor([[2, -1, 0]])
    )
    assert found.items.masked_fill(~found.valid, -1).tolist() == [[7, -1, 5]]
    assert found.columns["age"][0, [0, 2]].tolist() == [30, 10]
    assert found.slot[0, [0, 2]].tolist() == [2, 0]
    assert found.take(torch.tensor([[2, 0]])).columns["age"].tolist() == [[10, 30]]


def test_columns_are_gathered_on_first_access_and_once():
    class Watched(dict):
        asked = 0

        def __getitem__(self, name):
            Watched.asked += 1
            return super().__getitem__(name)

    found = of([[5, 6]], columns=Watched(age=torch.tensor([[1, 2]])))
    taken = found.take(torch.tensor([[1, 0]]))
    assert Watched.asked == 0
    assert taken.columns["age"] is taken.columns["age"]
    assert Watched.asked == 1
    assert list(taken.columns) == ["age"]
    assert len(taken.columns) == 1


def test_added_columns_replace_those_of_the_same_name():
    found = of([[1]], columns={"a": torch.tensor([[1]]), "b": torch.tensor([[2]])}).add(
        {"b": torch.tensor([[9]])}
    )
    assert {name: column.item() for name, column in found.columns.items()} == {"a": 1, "b": 9}
    assert len(found.columns) == 2
    assert found.add({}) is found


def test_notes_are_appended():
    found = of([[1]]).note(Note("a", "x")).note(Note("b", "y"), Note("c", "z"))
    assert [note.stage for note in found.notes] == ["a", "b", "c"]


def test_the_first_position_of_an_item_is_per_row_and_empty_positions_match_nothing():
    items = torch.tensor([[4, 9, 4, 4], [4, 4, 9, 9]])
    valid = torch.tensor([[True, True, True, True], [False, True, True, True]])
    first, leads = first_positions(items, valid)
    assert first.tolist() == [[0, 1, 0, 0], [0, 1, 2, 2]]
    assert leads.tolist() == [[True, True, False, False], [True, True, True, False]]


@pytest.mark.parametrize("width", [0, 1, 9, 64, 65, 200])
def test_a_position_is_a_repeat_from_its_second_occurrence_in_narrow_and_wide_slates(width):
    positions = torch.randint(
        -2, max(width // 2, 1), (5, width), generator=torch.Generator().manual_seed(width)
    )
    expected = [[at >= 0 and at in row[:place] for place, at in enumerate(row)] for row in positions.tolist()]
    assert repeats(positions).tolist() == expected


place = st.tuples(st.integers(-1, 5), st.sampled_from([nan, 0.0, 1.5, -2.0, math.inf]))
part = st.lists(place, max_size=6)


def oracle(parts, names):
    """One request's pool with dictionaries: item -> (first nominator, {nominator: (score, rank)})."""
    pool = {}
    for number, (name, places) in enumerate(zip(names, parts, strict=True)):
        for rank, (item, score) in enumerate(places):
            if item >= 0:
                _, nominations = pool.setdefault(item, (number, {}))
                nominations.setdefault(name, (score, rank))
    return pool


@settings(max_examples=150, deadline=None)
@given(st.lists(part, min_size=1, max_size=4), st.lists(part, min_size=4, max_size=4))
def test_merge_equals_an_oracle_with_dictionaries(one, other):
    names = [f"n{number}" for number in range(len(one))]
    rows = [one, other[: len(one)]]
    widths = [max(len(row[number]) for row in rows) for number in range(len(one))]
    padded = [[(p + [(-1, 0.0)] * w)[:w] for p, w in zip(row, widths, strict=True)] for row in rows]
    found = [
        of([[i for i, _ in row[n]] for row in padded], [[s for _, s in row[n]] for row in padded])
        for n in range(len(one))
    ]
    found = [Candidates.none(2) if not width else part for part, width in zip(found, widths, strict=True)]
    pooled = merge(found, names)
    for row, parts in enumerate(padded):
        expected = oracle(parts, names)
        at = {int(pooled.items[row, p]): p for p in pooled.valid[row].nonzero().flatten().tolist()}
        assert len(at) == int(pooled.valid[row].sum()) == len(expected)
        for item, (source, nominations) in expected.items():
            assert int(pooled.source[row, at[item]]) == source
            fused = sum(1 / (RRF + rank) for _, rank in nominations.values())
            assert float(pooled.scores[row, at[item]]) == pytest.approx(fused, rel=1e-5)
            for name in names:
                own = (
                    pooled.columns[f"{name}.score"][row, at[item]],
                    pooled.columns[f"{name}.rank"][row, at[item]],
                )
                assert [float(one) for one in own] == pytest.approx(
                    nominations.get(name, (nan, nan)), nan_ok=True
                )


def test_a_repeated_item_belongs_to_its_first_nominator_and_both_ranks_count():
    pooled = merge([of([[7, 8]], [[3, 1]]), of([[8, 9]], [[0.5, 0.1]])], ["a", "b"])
    assert pooled.items[pooled.valid].tolist() == [7, 8, 9]
    assert pooled.source[pooled.valid].tolist() == [0, 0, 1]
    assert pooled.columns["b.score"][pooled.valid].tolist() == pytest.approx([nan, 0.5, 0.1], nan_ok=True)
    assert pooled.best(1).items.item() == 8, "nominated by two"


def test_a_pool_keeps_the_notes_of_its_parts_in_order():
    parts = [of([[1]]).note(Note("a", "degraded")), Candidates.none(1).note(Note("b", "degraded"))]
    assert [note.stage for note in merge(parts, ["a", "b"]).notes] == ["a", "b"]


def test_a_pool_of_empty_nominations_has_the_columns_of_every_nominator():
    pooled = merge([Candidates.none(2), Candidates.none(2)], ["a", "b"])
    assert pooled.shape == (2, 0)
    assert set(pooled.columns) == {"a.score", "a.rank", "b.score", "b.rank"}
