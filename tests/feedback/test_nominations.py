"""Who nominated the items of a log: by name over funnels, with ranks and probabilities where the log has them."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.feedback import Funnel, logged_requests
from shortlist.feedback.nominations import joined, nominations
from shortlist.feedback.record import PER_CANDIDATE, concat
from shortlist.feedback.schema import candidates_table, record_of, requests_table
from shortlist.metrics.nomination.coverage import ABSENT


def record(names, masks, ranks=None, first=0, noise=(), **known):
    """One request for each mask, with one served item."""
    count = len(masks)
    columns = {} if ranks is None else {"nominator_ranks": np.array(ranks, np.int32)}
    width = len(names) if ranks is None else columns["nominator_ranks"].shape[1]
    return logged_requests(
        np.arange(first, first + count),
        np.full(count, 1000 + first),
        np.arange(count),
        np.arange(count + 1),
        np.arange(first, first + count) + 10,
        np.ones(count, np.int8),
        np.ones((count, 1), np.int32),
        channel_mask=np.array(masks, np.int64),
        funnels=(Funnel(("pool",), tuple(names), tuple(noise)),),
        nominator_propensity=known.pop("chance", np.full((count, width), np.nan, np.float32)),
        **({"nominator_ranks": np.zeros((count, width), np.int32)} | columns),
        **known,
    )


def candidates_of(one):
    return {name: getattr(one, name) for name in PER_CANDIDATE}


def rows(one):
    return np.arange(one.n_candidates)


def test_nominators_of_two_funnels_are_matched_by_name():
    """The second funnel lists other nominators in another order."""
    both = concat(
        [record("ab", [0b01, 0b11], [[1, 0], [4, 2]]), record("cba", [0b101], [[3, 0, 7]], first=5)]
    )
    found = nominations(both, rows(both))
    assert found.nominators == ("a", "b", "c")
    assert found.picked.tolist() == [[True, False, False], [True, True, False], [True, False, True]]
    assert found.rank.tolist() == [[0, ABSENT, ABSENT], [3, 1, ABSENT], [6, ABSENT, 2]]
    assert found.best.tolist() == [0, 1, 2]
    assert found.item_id.tolist() == [10, 11, 15]
    apart = [nominations(one, rows(one)) for one in (both.take(np.array([0, 1])), both.take(np.array([2])))]
    assert joined(apart).of("abc").rank.tolist() == found.rank.tolist()


def test_names_that_the_log_does_not_know_returned_nothing():
    one = record("ab", [0b11], [[1, 2]])
    found = nominations(one, rows(one)).of(["b", "z"])
    assert found.picked.tolist() == [[True, False]]
    assert found.rank.tolist() == [[1, ABSENT]]
    assert found.propensity.tolist() == [[1, 0]]


def test_log_without_ranks_still_tells_who_nominated():
    one = record("ab", [0b01, 0b10])
    found = nominations(one, rows(one))
    assert found.picked.tolist() == [[True, False], [False, True]]
    with pytest.raises(
        DataError, match="expected the ranks of nominated items in the log, got none for 2 of 2 items"
    ):
        _ = found.rank


def test_log_without_randomness_has_no_probability_of_being_shown():
    one = record("ab", [0b01, 0b10], [[1, 0], [0, 1]])
    assert np.isnan(nominations(one, rows(one)).shown).all()


def test_probability_of_being_shown_is_that_of_the_pool_times_that_of_the_slate():
    chance = np.array([[0.5, np.nan], [np.nan, np.nan], [0.2, np.nan]], np.float32)
    one = record(
        "ab",
        [0b01, 0b10, 0b11],
        [[1, 0], [0, 1], [1, 1]],
        noise=(0.3, 0.0),
        chance=chance,
        pool_propensity=np.array([0.5, np.nan, 1.0], np.float32),
        slate_propensity=np.array([0.5, 0.25, np.nan], np.float32),
    )
    found = nominations(one, rows(one))
    assert found.shown.tolist() == [0.25, 0.25, 1.0]
    assert found.propensity.tolist() == pytest.approx(np.array([[0.5, 0], [0, 1], [0.2, 1]]))


def test_item_of_a_certain_nominator_is_there_for_certain_where_another_one_is_random():
    """One request with two items; only that of b is random."""
    one = record("ab", [0b01, 0b10], [[1, 0], [0, 1]], pool_propensity=np.array([np.nan, 0.2], np.float32))
    together = replace(one.take(np.array([0])), offsets=np.array([0, 2]), **candidates_of(one))
    assert nominations(together, np.arange(2)).shown.tolist() == pytest.approx([1.0, 0.2])
    assert nominations(one, np.arange(2)).shown.tolist() == pytest.approx([np.nan, 0.2], nan_ok=True)


def test_no_record_has_no_item():
    assert len(joined([])) == 0
    assert joined([]).rank.shape == (0, 0)


def test_files_of_an_older_log_have_no_ranks_and_join_newer_ones():
    one = record("ab", [0b01, 0b10], [[1, 0], [0, 1]])
    table = candidates_table(one)
    old = record_of(requests_table(one), table.drop_columns(["nominator_rank_1", "nominator_rank_2"]), "old")
    assert not old.nominator_ranks.any()
    old = record_of(
        requests_table(one),
        table.select([name for name in table.column_names if "nominator" not in name]),
        "old",
    )
    assert old.nominator_ranks.shape == (2, 0)
    assert concat([old, one]).nominator_ranks.tolist() == [[0, 0], [0, 0], [1, 0], [0, 1]]
