import pytest

from shortlist.evaluate import evaluate, lookup
from shortlist.evaluate.lookup import look_up_users
from shortlist.pipeline import explain, run
from shortlist.pipeline.recommender import resized


@pytest.fixture(scope="module")
def found(recommender, world):
    return look_up_users(recommender, world)


def test_all_users_of_the_part_are_there_and_their_items_add_up_to_the_evaluation(found, recommender, world):
    losses = evaluate(recommender, world).losses
    assert len(found.requests) == found.total == len(world.split().test)
    assert sum(one.n_relevant for one in found.requests) == losses.relevant
    assert sum(stage < 0 for one in found.requests for stage in one.lost_at) == losses.returned
    for number, stage in enumerate(losses.stages):
        assert sum(one.lost_at.count(number) for one in found.requests) == stage.lost
    assert found.stages == tuple(stage.name for stage in losses.stages)


def test_fates_are_those_of_explain(found, recommender, world):
    request = world.split().test.take(slice(0, 1))
    query = request.query(width=int(request.history_lengths()[0]))
    slate = run(resized(recommender.as_measured().pipeline, 20), query)
    one = found.requests[0]
    assert one.user == world.users.id(int(request.users[0]))
    ids = [world.items.id(row) for row in slate.items[0].tolist()]
    assert [found.items[at].item_id for at in one.slate] == ids
    for at, row in enumerate(request.relevant()[0].tolist()):
        path = explain(slate.trace, row)
        assert found.items[one.relevant[at]].item_id == world.items.id(row)
        assert ("" if one.lost_at[at] < 0 else found.stages[one.lost_at[at]]) == path.dropped_at
        assert bool(one.removed[at]) == (path.verdict == "removed")
        assert {found.nominators[by] for by in one.nominated_by[at]} == {
            by.nominator for by in path.nominations
        }


def test_larger_parts_are_sampled_and_the_total_says_so(recommender, world, found):
    some = look_up_users(recommender, world, requests=3)
    assert (len(some.requests), some.total) == (3, found.total)
    assert {one.user for one in some.requests} <= {one.user for one in found.requests}
    assert some == look_up_users(recommender, world, requests=3)


def test_users_that_are_shown_elsewhere_are_always_there(recommender, world, found):
    for chosen in (found.requests[0].user, found.requests[-1].user):
        some = look_up_users(recommender, world, users=[chosen], requests=2, size=1)
        assert chosen in {one.user for one in some.requests}


def test_requests_stop_at_the_size_of_a_page(recommender, world, found, monkeypatch):
    monkeypatch.setattr(lookup, "BATCH", 5)
    some = look_up_users(recommender, world, size=1)
    assert (len(some.requests), some.total) == (5, found.total)
    assert len(some.items) < len(found.items)
    users = [one.user for one in found.requests]
    places = [users.index(one.user) for one in some.requests]
    assert places == sorted(places)


def test_thousands_of_requests_fit_into_a_page():
    assert lookup.REQUESTS >= 20_000
