"""POST /v1/recommend."""

from itertools import pairwise

import pytest

from shortlist.artifact.as_json import as_json
from shortlist.data import Note
from shortlist.grammar import as_pipeline
from shortlist.nominate import ModelNominator
from shortlist.pipeline import Optional, Within
from shortlist.pipeline.recommender import Request
from shortlist.serve.answer import degradations, degraded_header
from shortlist.serve.schemas import Degradation
from shortlist.stages import Explore

from .small_service import ITEMS, Broken, Event, Odd, pipeline_of, recommender_of, served, stages, towers

LIBRARY = recommender_of()


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        ({}, Request()),
        ({"user_id": "u3"}, Request(user="u3")),
        ({"user_id": "u3", "k": 4, "exclude": ["i18", "i0"]}, Request(user="u3", k=4, exclude=["i18", "i0"])),
        ({"history": ["i5", "i9"], "seed": 7}, Request(history=["i5", "i9"], seed=7)),
        ({"user_id": "u3", "history": []}, Request(user="u3", history=[])),
    ],
)
def test_service_gives_the_slate_of_the_library(client, body, request_):
    answer = client.recommend(**body)
    assert answer.status_code == 200
    assert answer.json()["items"] == as_json(LIBRARY.recommendations(LIBRARY.recommend(request_)))


def test_same_request_gets_the_same_response(client):
    first, second = (client.recommend(user_id="u1", seed=3).json() for _ in range(2))
    changing = ("request_id", "took_ms")
    assert {k: v for k, v in first.items() if k not in changing} == {
        k: v for k, v in second.items() if k not in changing
    }


def test_stages_account_for_every_candidate(client):
    answer = client.recommend(user_id="u2", k=5, trace=True).json()
    stages_ = answer["stages"]
    assert [one["name"] for one in stages_] == ["pool", "seen", "rank", "diverse"]
    assert all(one["entered"] == one["kept"] + one["removed"] + one["cut"] for one in stages_)
    assert all(after["entered"] == before["kept"] for before, after in pairwise(stages_))
    lost = sum(one["removed"] + one["cut"] for one in stages_)
    assert stages_[0]["entered"] == lost + len(answer["items"])


def test_stages_are_returned_only_on_request(client):
    assert "stages" not in client.recommend(user_id="u2").json()


def test_slate_is_unique_ranked_from_one_and_no_longer_than_k(client):
    items = client.recommend(user_id="u0", k=1000).json()["items"]
    assert len({one["item_id"] for one in items}) == len(items) == 30
    assert [one["rank"] for one in items] == list(range(1, 31))
    assert all(isinstance(one["score"], float) for one in items)


def test_unknown_user_gets_the_slate_of_a_request_without_user(client):
    anonymous, unknown = client.recommend().json(), client.recommend(user_id="nobody").json()
    assert unknown["items"] == anonymous["items"] != []
    assert not unknown["known_user"]
    assert client.recommend(user_id="u1").json()["known_user"]


def test_unknown_items_of_a_history_are_ignored_and_counted(client):
    some, all_ = client.recommend(history=["i1", "zz", "--5"]).json(), client.recommend(history=["i1"]).json()
    assert some["items"] == all_["items"]
    assert (some["ignored"], all_["ignored"]) == (2, 0)


def test_excluded_items_are_not_returned(client):
    shown = [one["item_id"] for one in client.recommend(user_id="u1").json()["items"]]
    again = client.recommend(user_id="u1", exclude=[*shown[:3], "unknown"]).json()["items"]
    assert not set(shown[:3]) & {one["item_id"] for one in again}


def test_integer_ids_are_accepted_as_integers_and_as_text():
    with served(recommender_of(ids=list(range(ITEMS)))) as client:
        one, two = client.recommend(history=[5, 9]).json(), client.recommend(history=["5", "9"]).json()
        assert one["items"] == two["items"]
        assert client.recommend(history=["--5", "-", "5.0", "٥x"]).json()["ignored"] == 4


def test_nonfinite_scores_become_null_and_are_counted():
    pipeline = pipeline_of(rank=Odd(name="odd"))
    with served(recommender_of(pipeline)) as client:
        answer = client.recommend(k=1000, trace=True)
        assert [one["score"] for one in answer.json()["items"]].count(
            None
        ) == 0  # they are below the cut of 30
        assert 'shortlist_nonfinite_scores_total{stage="odd"} 2.0' in client.get("/metrics").text
    popular = stages()["popular"]
    with served(recommender_of(popular >> Odd(name="odd"))) as client:
        answer = client.recommend()
        assert [one["score"] for one in answer.json()["items"]].count(None) == 2
        assert "NaN" not in answer.text
        assert "Infinity" not in answer.text


def test_failed_optional_stage_is_reported_without_its_message():
    on = Event()
    with served(recommender_of(pipeline_of(rank=Optional(Broken(on, name="rank"))))) as client:
        assert client.recommend().json()["degraded"] == []
        on.set()
        answer = client.recommend()
        assert answer.status_code == 200
        assert answer.json()["degraded"] == [{"stage": "rank", "cause": "error"}]
        assert answer.headers["shortlist-degraded"] == "rank;error"
        assert "secret" not in answer.text
        assert 'shortlist_degraded_total{stage="rank"} 1.0' in client.get("/metrics").text


def test_late_stage_is_reported_as_timeout_or_busy():
    trace = type("T", (), {"degraded": (Note("rank", "degraded", "timeout: not done within 5 ms"),)})
    assert degradations(trace) == [Degradation(stage="rank", cause="timeout")]
    busy = type("T", (), {"degraded": (Note("rank", "degraded", "busy: an earlier call is still running"),)})
    assert degradations(busy) == [Degradation(stage="rank", cause="busy")]


def test_degraded_header_is_ascii_for_any_stage_name():
    found = [Degradation(stage="größe", cause="error"), Degradation(stage="a\r\nb", cause="busy")]
    assert degraded_header(found) == "gr%C3%B6%C3%9Fe;error, a%0D%0Ab;busy"


def test_guarded_stage_within_its_limit_changes_nothing():
    guarded = recommender_of(pipeline_of(rank=Within(stages()["rank"], ms=60_000)))
    with served(guarded) as client:
        answer = client.recommend(user_id="u1").json()
    assert answer["degraded"] == []
    assert answer["items"] == as_json(LIBRARY.recommendations(LIBRARY.recommend(Request(user="u1"))))


def test_sampling_depends_on_the_seed_and_propensities_are_returned():
    library = recommender_of(pipeline_of(diverse=Explore(name="explore", k=5, temperature=1.0)))
    with served(library) as client:
        slates = [client.recommend(user_id="u1", seed=seed).json()["items"] for seed in (1, 1, 2)]
    assert slates[0] == slates[1] != slates[2]
    assert slates[0] == as_json(library.recommendations(library.recommend(Request(user="u1", seed=1))))
    assert all(0 < one["propensity"] <= 1 for one in slates[0])


def test_no_user_is_offered_an_item_of_the_history(client):
    library = recommender_of()
    for user in library.users.ids.to_pylist():
        history = {library.catalog.vocabulary.id(row) for row in library.history(Request(user=user))}
        answer = client.recommend(user_id=user, k=1000).json()
        offered = {item["item_id"] for item in answer["items"]}
        assert history
        assert offered
        assert not history & offered


def test_item_of_a_sent_history_is_not_offered(client):
    history = [f"i{row}" for row in range(0, 40, 2)]
    offered = [item["item_id"] for item in client.recommend(user_id="u1", history=history).json()["items"]]
    assert offered
    assert not set(history) & set(offered)


def test_excluding_nominator_offers_no_item_of_the_history_either():
    towers_only = as_pipeline(ModelNominator(towers(), exclude_seen=True, name="towers") % ITEMS)
    library = recommender_of(towers_only)
    with served(library) as client:
        for user in library.users.ids.to_pylist():
            answer = client.recommend(user_id=user).json()
            history = {library.catalog.vocabulary.id(row) for row in library.history(Request(user=user))}
            assert len(answer["items"]) == ITEMS - len(history)
            assert not history & {item["item_id"] for item in answer["items"]}
