"""Live users: answers follow every event, and are those of a recommender that has the whole history."""

from dataclasses import replace
from threading import Thread

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, Query, Vocabulary
from shortlist.errors import ArtifactError, ConfigError, VersionMismatch
from shortlist.grammar import as_pipeline
from shortlist.models.user_vectors import model_version, state_key
from shortlist.nominate import ModelNominator, Popular
from shortlist.nominate.in_pool import InPool
from shortlist.pipeline import run
from shortlist.pipeline.live.states import state_models
from shortlist.pipeline.recommender import Request
from shortlist.stages import ModelScorer, Seen

from .live_users import ITEM_WITHOUT_EVENTS, N_ITEMS, NOW, events, model, pipeline, recommender


def slate(one, request):
    found = one.recommend(request)
    found.trace.check()
    return [(entry.item_id, entry.score) for entry in one.recommendations(found)]


def ids(one, request):
    return [item for item, _ in slate(one, request)]


def entries(one, query, row=0):
    return [(entry.item_id, entry.score) for entry in one.recommendations(run(one.pipeline, query), row)]


def check_same(one, other):
    """The same items, and scores within the differences of arithmetic."""
    assert [item for item, _ in one] == [item for item, _ in other]
    np.testing.assert_allclose([x for _, x in one], [x for _, x in other], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n_events", [1, 3, 10])
@pytest.mark.parametrize("user", ["a", "b", "new"])
@torch.no_grad()
def test_vectors_of_live_users_are_those_of_their_whole_histories(user, n_events):
    one = recommender().live()
    one.apply(events(user, [(7 * at) % N_ITEMS for at in range(n_events)]), NOW)
    query = one.query([Request(user=user)])
    (made,) = state_models(one.pipeline)
    expected = made.users(query.history, query.user)
    got = query.context[state_key(model_version(made))]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert query.history[0, -n_events:].tolist() == [(7 * at) % N_ITEMS for at in range(n_events)]


@pytest.mark.parametrize(("user", "row"), [("a", 0), ("b", 1), ("new", -1)])
def test_slates_of_live_users_are_those_of_their_whole_histories(user, row):
    one = recommender().live()
    one.apply(events(user, [20, 21, 22]), NOW)
    replayed = Query.of([one.states.history(user)], [row], [one.about.ends])
    check_same(slate(one, Request(user=user)), entries(one, replayed))


@torch.no_grad()
def test_batch_of_live_users_gives_the_vectors_of_single_requests():
    one = recommender().live()
    one.apply([*events("a", [20, 21]), *events("new", [22]), *events("b", [23] * 4)], NOW)
    requests = [Request(user=user) for user in ("a", "b", "c", "new", "other")]
    requests += [Request(history=["i3"]), Request(user="a", history=["i3"]), Request()]
    key = state_key(one.states.version)
    together = one.query(requests)
    for at, request in enumerate(requests):
        alone = one.query([request])
        if request.user is None or request.history is not None:
            assert bool(together.context[key][at].isnan().all())
            assert key not in alone.context
        else:
            torch.testing.assert_close(together.context[key][at], alone.context[key][0], rtol=1e-5, atol=1e-5)
        check_same(entries(one, together, at), slate(one, request))


def test_recommendations_of_a_never_seen_user_change_with_every_event():
    """Issue: after 1, 3 and 10 events, without a training."""
    one = recommender().live()
    scores = [dict(slate(one, Request(user="new")))]
    for at in range(10):
        one.apply(events("new", [3 * at + 1], NOW - 100 + at), NOW)
        scores.append(dict(slate(one, Request(user="new"))))
        assert scores[-1] != scores[-2]
        assert f"i{3 * at + 1}" not in scores[-1]  # seen at once
    assert set(scores[0]) != set(scores[1]) != set(scores[3]) != set(scores[10])


def test_users_without_live_events_are_answered_as_before():
    before = recommender()
    one = before.live()
    one.apply(events("a", [20]), NOW)
    for request in (
        Request(user="b"),
        Request(user="c"),
        Request(user="nobody"),
        Request(history=["i1", "i4"]),
    ):
        check_same(slate(before, request), slate(one, request))
    assert slate(before, Request(user="a")) != slate(one, Request(user="a"))


def test_given_history_replaces_live_events():
    one = recommender().live()
    one.apply(events("a", [20, 21]), NOW)
    request = Request(user="a", history=["i1", "i2", "i3"])
    assert slate(one, request) == slate(recommender(), request)


def test_item_without_training_events_is_an_input():
    one = recommender().live()
    before = ids(one, Request(user="new"))
    report = one.apply(events("new", [ITEM_WITHOUT_EVENTS[1:]]), NOW)
    assert (report.applied, report.rejected) == (1, ())
    assert ids(one, Request(user="new")) != before


def test_event_twice_changes_nothing():
    one = recommender().live()
    one.apply(events("new", [5]), NOW)
    before = slate(one, Request(user="new"))
    report = one.apply(events("new", [5]), NOW)
    assert (report.applied, report.duplicates) == (0, 1)
    assert slate(one, Request(user="new")) == before


def test_second_model_with_states_reads_histories():
    """The states are those of the first model; another one is right too, at the price of its history."""
    other = model(seed=5)
    one = recommender(pipeline(model(), other)).live()
    one.apply(events("a", [20, 21]), NOW)
    assert len(state_models(one.pipeline)) == 2
    query = one.query([Request(user="a")])
    with torch.no_grad():
        expected = other.users(query.history, query.user)
        rank = next(stage for stage in one.pipeline.stages if stage.title == "rank").inner
        found = one.pipeline.stages[0](query, None)
        scores = rank.score(query, found)
        torch.testing.assert_close(
            scores, other.score_vectors(expected, found.items.clamp(min=0)), rtol=1e-5, atol=1e-5
        )


def test_replaced_pipeline_does_not_use_states_of_other_weights():
    one = recommender().live()
    other = replace(one, pipeline=pipeline(model(seed=9)))
    with pytest.raises(VersionMismatch, match="migrate the states"):
        other.query([Request(user="a")])
    with pytest.raises(VersionMismatch):
        recommender(pipeline(model(seed=9))).live(states=one.states)


def permuted(made=None):
    """A bundle with the same items in another order."""
    one = recommender(made)
    names = Vocabulary.of(one.catalog.vocabulary.ids_of(list(range(N_ITEMS))[::-1]))
    return replace(one, catalog=Catalog(names, pa.table({})))


@pytest.mark.parametrize("other", [permuted(), recommender(users=("c", "b", "a"))])
def test_states_of_another_catalogue_or_other_users_are_refused(other):
    with pytest.raises(
        ArtifactError, match=r"expected .* of the recommender; make the states from the same bundle"
    ):
        other.live(states=recommender().live().states)


def test_two_versions_are_served_side_by_side_whichever_is_switched_to():
    """Each recommender is answered with the rows, histories and vectors of its own bundle."""
    first, second = recommender(), permuted(pipeline(model(seed=9)))
    one, sent = first.live(), events("a", [20, 21, 3])
    one.apply(sent, NOW)
    (made,) = state_models(second.pipeline)
    bundle = {"users": second.users, "items": second.catalog.vocabulary, "histories": second.histories}
    one.states.migrate(made, model_version(made), NOW, **bundle)
    two = second.live(states=one.states)
    alone = [each.live() for each in (first, second)]
    for each in alone:
        each.apply(sent, NOW)
    for version in (one.states.version, model_version(made)):
        one.states.switch(version)
        for each, expected in zip((one, two), alone, strict=True):
            for user in ("a", "b", "new"):
                assert each.history(Request(user=user)) == expected.history(Request(user=user))
                check_same(slate(each, Request(user=user)), slate(expected, Request(user=user)))
    one.states.retire(one.states.versions[0])
    with pytest.raises(VersionMismatch):
        one.query([Request(user="a")])


@torch.no_grad()
def test_history_and_vector_of_a_query_are_of_one_moment(monkeypatch):
    one = recommender().live()
    query = one.states.query

    def after_an_event(*args):
        thread = Thread(target=lambda: one.apply(events("a", [20]), NOW))
        thread.start()
        thread.join(0.2)
        threads.append(thread)
        return query(*args)

    threads = []
    monkeypatch.setattr(one.states, "query", after_an_event)
    found = one.query([Request(user="a")])
    threads[0].join()
    (made,) = state_models(one.pipeline)
    expected = made.users(found.history, found.user)
    torch.testing.assert_close(found.context[state_key(one.states.version)], expected, rtol=1e-5, atol=1e-5)
    assert one.history(Request(user="a"))[-1] == 20


def test_pipeline_without_a_state_model_has_live_histories():
    plain = Popular(torch.arange(N_ITEMS), torch.linspace(1, 0.1, N_ITEMS), name="popular", limit=10)

    one = recommender(as_pipeline(plain >> Seen(name="seen"))).live()
    assert "i0" in ids(one, Request(user="new"))
    one.apply(events("new", [0]), NOW)
    assert "i0" not in ids(one, Request(user="new"))


def test_events_need_live_users():
    with pytest.raises(ConfigError, match="no live users"):
        recommender().apply([], NOW)


def test_measured_pipeline_has_no_live_users():
    one = recommender().live()
    assert one.as_measured().states is None


def test_forgotten_user_is_a_new_one():
    one = recommender().live()
    one.apply(events("a", [20]), NOW)
    one.states.forget("a")
    assert not one.knows("a")
    check_same(slate(one, Request(user="a")), slate(one, Request(user="nobody")))
    assert one.query([Request(user="a")]).user.tolist() == [-1]
    one.apply(events("a", [21], NOW - 500), NOW)
    assert one.knows("a")
    assert one.query([Request(user="a")]).history.tolist() == [[21]]


def test_models_of_wrapped_nominators_are_found():

    inner = ModelNominator(model(), name="taste", limit=5)
    wrapped = InPool(inner, torch.ones(N_ITEMS, dtype=torch.bool), name="part", limit=5)

    assert state_models(as_pipeline(wrapped >> ModelScorer(inner.model, name="rank"))) == [inner.model]
