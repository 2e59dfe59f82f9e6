"""Batches of live users: the slates of single requests."""

from dataclasses import replace

import pyarrow as pa
import pytest

from shortlist.errors import VersionMismatch
from shortlist.models.user_vectors import model_version
from shortlist.pipeline.live.batch import batch_users
from shortlist.pipeline.live.states import state_models
from shortlist.pipeline.recommender import Request
from shortlist.state import StateSettings

from .live_users import HISTORIES, NOW, events, model, pipeline, recommender
from .test_states import check_same, ids, slate


def test_batch_answers_live_users_like_single_requests():
    one = recommender().live()
    one.apply([*events("a", [20, 21]), *events("new", [22, 3])], NOW)
    table = one.recommend_all().read_all().to_pylist()
    assert {row["user"] for row in table} == {"a", "b", "c", "new"}
    for user in ("a", "b", "c", "new"):
        own = [(row["item"], row["score"]) for row in table if row["user"] == user]
        check_same(own, slate(one, Request(user=user)))


def test_batch_leaves_out_forgotten_users_and_answers_them_by_id_as_new_ones():
    one = recommender().live()
    one.states.forget("a")
    one.apply(events("c", [1]), NOW)
    assert set(one.recommend_all().read_all()["user"].to_pylist()) == {"b", "c"}
    found = batch_users(one, ["a", "c", "unknown"], "answer")
    assert found.users.unknown == 1
    rows = found.users.rows.tolist()
    assert rows[0] >= 3
    assert found.histories.of(rows[0]) == []
    assert found.histories.of(rows[1]) == [*HISTORIES["c"], 1]
    by_id = one.recommend_all(["a"]).read_all()["item"].to_pylist()
    assert by_id == ids(one, Request(user="nobody"))


def test_whole_number_ids_stay_numbers_in_a_batch():
    one = recommender(users=(1, 2, 3)).live()
    one.apply(events(17, [4]), NOW)
    assert set(one.recommend_all().read_all()["user"].to_pylist()) == {1, 2, 3, 17}


@pytest.mark.parametrize("other", ["01", "-0", "+1", " 1", str(2**70)])
@pytest.mark.parametrize("count", [1, 2])
def test_text_that_a_cast_would_change_is_a_user_of_its_own(other, count):
    one = recommender(users=(1, 2, 3)).live()
    one.apply([*events(other, [20, 21][:count]), *events(2, [22])], NOW)
    table = one.recommend_all().read_all()
    assert table.schema.field("user").type == pa.string()
    assert set(table["user"].to_pylist()) == {"1", "2", "3", other}
    for user in (1, 2, 3, other):
        check_same(rows_of(table, str(user)), slate(one, Request(user=user)))
    check_same(rows_of(one.recommend_all([3]).read_all(), 3), slate(one, Request(user=3)))


def rows_of(table, user):
    return [(row["item"], row["score"]) for row in table.to_pylist() if row["user"] == user]


USERS = ("a", "b", "c", "new")


def check_batch(one):
    table = one.recommend_all().read_all()
    for user in USERS:
        check_same(rows_of(table, user), slate(one, Request(user=user)))


def test_promoted_user_is_answered_in_a_batch_as_alone():
    one = recommender(pipeline(model(threshold=2))).live()
    one.apply([*events("b", [20, 21, 22]), *events("new", [23, 24, 25, 26])], NOW)
    before = rows_of(one.recommend_all().read_all(), "new")
    assert one.states.review().promoted == 2
    check_batch(one)
    assert rows_of(one.recommend_all().read_all(), "new") != before


@pytest.mark.parametrize("storage", ["fp32", "fp16", "int8"])
def test_stored_states_give_the_scores_of_a_batch(storage):
    one = recommender().live(StateSettings(storage=storage))
    one.apply([event for user in USERS for event in events(user, [20, 21, 22, 23])], NOW)
    check_batch(one)


@pytest.mark.parametrize("storage", ["fp32", "int8"])
def test_forgotten_users_of_a_batch_are_answered_as_alone(storage):
    one = recommender().live(StateSettings(storage=storage))
    one.apply([*events("a", [20]), *events("b", [21])], NOW)
    one.states.forget("a")
    one.states.forget("c")
    table = one.recommend_all(["a", "b", "c"]).read_all()
    for user in ("a", "b", "c"):
        check_same(rows_of(table, user), slate(one, Request(user=user)))


def test_batch_of_a_replaced_pipeline_is_refused_as_single_requests_are():
    one = recommender().live()
    one.apply(events("a", [20, 21]), NOW)
    other = replace(one, pipeline=pipeline(model(seed=9)))
    assert batch_users(one, None, "answer").states is one.states
    with pytest.raises(VersionMismatch):
        other.recommend_all()


def test_batch_has_the_states_of_its_own_version():
    one, second = recommender().live(), recommender(pipeline(model(seed=9)))
    one.apply(events("a", [20, 21]), NOW)
    (made,) = state_models(second.pipeline)
    one.states.migrate(made, model_version(made), NOW)
    two = second.live(states=one.states)
    for version in one.states.versions:
        one.states.switch(version)
        for each in (one, two):
            check_same(rows_of(each.recommend_all().read_all(), "a"), slate(each, Request(user="a")))
