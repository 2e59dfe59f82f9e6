"""Slates of many users: the same as those of single requests, in the order of the users."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shortlist.data import Vocabulary
from shortlist.errors import ConfigError
from shortlist.grammar import Scorer, as_pipeline
from shortlist.pipeline import Optional, Recommender, Request, Within
from shortlist.pipeline.batch import job, select_users
from shortlist.stages import Explore, Seen
from shortlist.state.histories import UserHistories
from tests.pipeline.strategies import pipelines
from tests.worlds import N_ITEMS, listed, tiny_recommender


@pytest.fixture(scope="module")
def recommender():
    return tiny_recommender()


def with_histories(recommender: Recommender, histories: list[list[int]]) -> Recommender:
    starts = torch.tensor([0, *np.cumsum([len(one) for one in histories])])
    items = torch.tensor([item for one in histories for item in one], dtype=torch.int64)
    users = Vocabulary.of([f"u{row}" for row in range(len(histories))])
    return replace(recommender, users=users, histories=UserHistories(starts, items))


def one_by_one(recommender, users, k=None, seed=0):
    """The obvious version: a request per user."""
    rows = []
    for user in users:
        slate = recommender.recommend(Request(user, k=k, seed=seed))
        for one in recommender.recommendations(slate):
            rows.append((user, one.item_id, one.rank, one.score, one.title, list(one.nominators)))
    return rows


def as_rows(table):
    names = ("user", "item", "rank", "score", "title", "nominators")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def same(rows, expected):
    assert [row[:3] + row[4:] for row in rows] == [row[:3] + row[4:] for row in expected]
    scores = [[np.nan if row[3] is None else row[3] for row in table] for table in (rows, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-6)


histories = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=7), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(pipelines(), histories, st.integers(0, 100), st.sampled_from([None, 1, 4]))
def test_every_pipeline_gives_the_slates_of_single_requests(pipeline, histories, seed, k):
    world = replace(with_histories(tiny_recommender(), histories), pipeline=as_pipeline(pipeline))
    users = [f"u{row}" for row in range(len(histories))]
    same(as_rows(world.recommend_all(k=k, seed=seed).read_all()), one_by_one(world, users, k, seed))


@settings(max_examples=10, deadline=None)
@given(histories)
def test_models_and_rankers_give_the_slates_of_single_requests(histories):
    world = with_histories(tiny_recommender(), histories)
    same(as_rows(world.recommend_all().read_all()), one_by_one(world, world.users.ids.to_pylist()))


def test_small_parts_and_batches_change_nothing(recommender, monkeypatch):
    world = with_histories(recommender, [[row % N_ITEMS] * (row % 6) for row in range(40)])
    whole = world.recommend_all().read_all()
    for name, size in (("PART", 7), ("BATCH", 3), ("CELLS", 8)):
        monkeypatch.setattr(job, name, size)
    same(as_rows(world.recommend_all().read_all()), as_rows(whole))


def test_batch_of_long_histories_is_small_and_of_similar_length(recommender, monkeypatch):
    monkeypatch.setattr(job, "CELLS", 12)
    lengths = [1, 6, 0, 2, 5, 1]
    world = with_histories(recommender, [[3] * length for length in lengths])
    work = job.BatchJob(world.pipeline, world.histories, select_users(world.users), 0, 0)
    batches = [[lengths[at] for at in batch] for batch in work.batches(np.arange(6))]
    assert batches == [[6, 5], [2, 1, 1, 0]]


def test_users_are_answered_in_the_given_order_unknown_ones_as_new_users(recommender):
    table = recommender.recommend_all(["b", "nobody", "a"], k=2).read_all()
    assert table["user"].to_pylist() == ["b", "b", "nobody", "nobody", "a", "a"]
    same(as_rows(table), one_by_one(recommender, ["b", "nobody", "a"], 2))
    skipped = recommender.recommend_all(["b", "nobody", "a"], k=2, unknown="skip").read_all()
    assert skipped["user"].to_pylist() == ["b", "b", "a", "a"]


def test_no_user_is_offered_an_item_of_the_history(recommender):
    table = recommender.recommend_all().read_all()
    shown = set(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))
    assert not shown & {("a", "i1"), ("a", "i2"), ("a", "i3"), ("b", "i7"), ("b", "i9")}


def test_no_users_give_an_empty_table_with_all_columns(recommender):
    table = recommender.recommend_all([]).read_all()
    assert len(table) == 0
    assert table.column_names == ["user", "item", "rank", "score", "title", "nominators"]


def test_sampled_slates_have_propensities(recommender):
    sampling = replace(recommender, pipeline=recommender.pipeline >> Explore() % 3)
    table = sampling.recommend_all(seed=4).read_all()
    entries = sampling.recommendations(sampling.recommend(Request("a", seed=4)))
    assert table["propensity"].to_pylist()[:3] == pytest.approx([one.propensity for one in entries])


def test_users_draw_independently_with_one_seed_and_repeat_with_the_same_seed(recommender):
    world = with_histories(recommender, [[]] * 300)  # the same scores for all: only the draws differ
    sampling = replace(world, pipeline=listed("a", range(6)) >> Explore(temperature=2.0) % 2)
    first, again, other = (sampling.recommend_all(seed=seed).read_all() for seed in (3, 3, 4))
    assert again.equals(first)
    assert other["item"].to_pylist() != first["item"].to_pylist()
    best = first.filter(pc.equal(first["rank"], 1))
    shown = Counter(best["item"].to_pylist())
    probability = dict(zip(best["item"].to_pylist(), best["propensity"].to_pylist(), strict=True))
    assert len(shown) == 6
    assert sum(probability.values()) == pytest.approx(1, rel=1e-5)
    expected = [len(world.users) * probability[item] for item in shown]
    assert stats.chisquare(list(shown.values()), expected).pvalue > 1e-3


def test_draws_of_users_do_not_depend_on_their_rows_and_unknown_users_draw_too(recommender):
    sampling = replace(recommender, pipeline=listed("a", range(30)) >> Explore(temperature=2.0) % 5)
    moved = replace(sampling, users=Vocabulary.of(["new", "b", "a"]))
    for user in ("a", "b", "nobody"):
        one, other = (
            world.recommend(Request(user, [], seed=1)).items.tolist() for world in (sampling, moved)
        )
        assert one == other
    users = ["b", "nobody", "somebody"]
    table = sampling.recommend_all(users, seed=1).read_all()
    same(as_rows(table), one_by_one(sampling, users, seed=1))
    slates = {user: table.filter(pc.equal(table["user"], user))["item"].to_pylist() for user in users}
    assert slates["nobody"] != slates["somebody"]


def test_catalogue_without_titles_has_no_title_column(recommender):
    bare = replace(recommender, catalog=replace(recommender.catalog, table=pa.table({})))
    assert "title" not in bare.recommend_all().read_all().column_names


def test_stream_is_read_by_whatever_reads_arrow_streams(recommender):
    reader = recommender.recommend_all(k=2)
    assert hasattr(reader, "__arrow_c_stream__")
    assert pa.table(reader).num_rows == 6


@dataclass(frozen=True, eq=False, repr=False)
class FailsForNewUsers(Scorer):
    """Raises if any request has no history."""

    def score(self, query, found):
        if bool((query.history < 0).all(1).any()):
            raise RuntimeError("no history")
        return found.items.float()


def test_failure_of_a_guarded_stage_is_limited_to_the_users_it_fails_for(recommender):
    pipeline = as_pipeline(listed("a", range(9)) >> Seen() >> Optional(FailsForNewUsers(name="rank") % 4))
    guarded = replace(recommender, pipeline=pipeline)
    same(as_rows(guarded.recommend_all().read_all()), one_by_one(guarded, ["a", "b", "c"]))


def test_time_limit_of_a_request_does_not_apply_to_a_batch(recommender):
    rank = FailsForNewUsers(name="rank")
    limited = replace(recommender, pipeline=as_pipeline(listed("a", range(9)) >> Within(rank, ms=1e-6) % 3))
    table = limited.recommend_all(["a", "b"]).read_all()
    assert table["item"].to_pylist() == ["i8", "i7", "i6"] * 2


def test_threads_of_the_caller_are_left_as_they_are(recommender):
    before = torch.get_num_threads()
    recommender.recommend_all().read_all()
    assert torch.get_num_threads() == before


def test_k_below_one_is_refused_before_the_work(recommender):
    with pytest.raises(ConfigError, match="k must be 1 or more, got 0"):
        recommender.recommend_all(k=0)


def test_data_frames_read_the_stream(recommender):
    pandas, polars, duckdb = (pytest.importorskip(name) for name in ("pandas", "polars", "duckdb"))
    expected = recommender.recommend_all(k=2).read_all()["item"].to_pylist()
    assert polars.DataFrame(recommender.recommend_all(k=2))["item"].to_list() == expected
    assert list(pandas.DataFrame.from_arrow(recommender.recommend_all(k=2))["item"]) == expected
    stream = recommender.recommend_all(k=2)
    assert [item for (item,) in duckdb.from_arrow(stream).project("item").fetchall()] == expected
