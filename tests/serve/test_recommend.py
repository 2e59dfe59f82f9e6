from itertools import pairwise

import pytest

from shortlist.data import Note
from shortlist.pipeline import Optional, Within
from shortlist.pipeline.recommender import Request
from shortlist.serve.answer import degradations, degraded_header
from shortlist.serve.schemas import Degradation
from shortlist.stages import Explore

from .tiny import ITEMS, Broken, Event, Odd, pipeline_of, recommender_of, served, stages

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
def test_http_answers_as_the_library_does(client, body, request_):
    answer = client.recommend(**body)
    assert answer.status_code == 200
    assert answer.json()["items"] == LIBRARY.recommendations(LIBRARY.recommend(request_))


def test_the_same_request_is_answered_alike(client):
    first, second = (client.recommend(user_id="u1", seed=3).json() for _ in range(2))
    changing = ("request_id", "took_ms")
    assert {k: v for k, v in first.items() if k not in changing} == {
        k: v for k, v in second.items() if k not in changing
    }


def test_the_stages_account_for_every_candidate(client):
    answer = client.recommend(user_id="u2", k=5, trace=True).json()
    told = answer["stages"]
    assert [one["name"] for one in told] == ["pool", "seen", "rank", "diverse"]
    assert all(one["in"] == one["out"] + one["removed"] + one["cut"] for one in told)
    assert all(after["in"] == before["out"] for before, after in pairwise(told))
    lost = sum(one["removed"] + one["cut"] for one in told)
    assert told[0]["in"] == lost + len(answer["items"])


def test_stages_are_told_only_when_asked_for(client):
    assert "stages" not in client.recommend(user_id="u2").json()


def test_a_slate_is_unique_ranked_from_one_and_no_longer_than_k(client):
    items = client.recommend(user_id="u0", k=1000).json()["items"]
    assert len({one["item_id"] for one in items}) == len(items) == 30
    assert [one["rank"] for one in items] == list(range(1, 31))
    assert all(isinstance(one["score"], float) for one in items)


def test_an_unknown_user_is_answered_like_a_stranger(client):
    stranger, unknown = client.recommend().json(), client.recommend(user_id="nobody").json()
    assert unknown["items"] == stranger["items"] != []
    assert not unknown["known_user"]
    assert client.recommend(user_id="u1").json()["known_user"]


def test_unknown_items_of_a_history_are_ignored_and_counted(client):
    some, all_ = client.recommend(history=["i1", "zz", "--5"]).json(), client.recommend(history=["i1"]).json()
    assert some["items"] == all_["items"]
    assert (some["ignored"], all_["ignored"]) == (2, 0)


def test_what_is_excluded_is_not_shown(client):
    shown = [one["item_id"] for one in client.recommend(user_id="u1").json()["items"]]
    again = client.recommend(user_id="u1", exclude=[*shown[:3], "unheard"]).json()["items"]
    assert not set(shown[:3]) & {one["item_id"] for one in again}


def test_integer_ids_are_found_as_integers_and_as_text_and_looking_alike_is_not_enough():
    with served(recommender_of(ids=list(range(ITEMS)))) as client:
        one, two = client.recommend(history=[5, 9]).json(), client.recommend(history=["5", "9"]).json()
        assert one["items"] == two["items"]
        assert client.recommend(history=["--5", "-", "5.0", "٥x"]).json()["ignored"] == 4


def test_scores_that_are_no_numbers_become_null_and_are_counted():
    pipeline = pipeline_of(rank=Odd(name="odd"))
    with served(recommender_of(pipeline)) as client:
        answer = client.recommend(k=1000, trace=True)
        assert [one["score"] for one in answer.json()["items"]].count(
            None
        ) == 0  # they sank below the cut of 30
        assert 'shortlist_nonfinite_scores_total{stage="odd"} 2.0' in client.get("/metrics").text
    popular = stages()["popular"]
    with served(recommender_of(popular >> Odd(name="odd"))) as client:
        answer = client.recommend()
        assert [one["score"] for one in answer.json()["items"]].count(None) == 2
        assert "NaN" not in answer.text
        assert "Infinity" not in answer.text


def test_a_failing_optional_stage_is_told_without_its_words():
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


def test_a_late_stage_is_told_as_late():
    trace = type("T", (), {"degraded": (Note("rank", "degraded", "timeout: not done within 5 ms"),)})
    assert degradations(trace) == [Degradation(stage="rank", cause="timeout")]
    busy = type("T", (), {"degraded": (Note("rank", "degraded", "busy: an earlier call is still running"),)})
    assert degradations(busy) == [Degradation(stage="rank", cause="busy")]


def test_the_header_for_proxies_is_ascii_whatever_stages_are_called():
    found = [Degradation(stage="größe", cause="error"), Degradation(stage="a\r\nb", cause="busy")]
    assert degraded_header(found) == "gr%C3%B6%C3%9Fe;error, a%0D%0Ab;busy"


def test_a_guarded_stage_in_time_changes_nothing():
    guarded = recommender_of(pipeline_of(rank=Within(stages()["rank"], ms=60_000)))
    with served(guarded) as client:
        answer = client.recommend(user_id="u1").json()
    assert answer["degraded"] == []
    assert answer["items"] == LIBRARY.recommendations(LIBRARY.recommend(Request(user="u1")))


def test_chance_comes_from_the_seed_and_its_odds_are_told():
    library = recommender_of(pipeline_of(diverse=Explore(name="explore", k=5, heat=1.0)))
    with served(library) as client:
        slates = [client.recommend(user_id="u1", seed=seed).json()["items"] for seed in (1, 1, 2)]
    assert slates[0] == slates[1] != slates[2]
    assert slates[0] == library.recommendations(library.recommend(Request(user="u1", seed=1)))
    assert all(0 < one["propensity"] <= 1 for one in slates[0])
