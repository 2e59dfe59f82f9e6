"""Events of live users over restarts of the service."""

import pytest

from shortlist.errors import ArtifactError
from shortlist.serve import LiveTo, make_app
from shortlist.serve.live import EVENTS, SNAPSHOT, live_recommender
from shortlist.state import StateSettings
from tests.pipeline.live.live_users import model, pipeline, recommender

from .live_service import TAKEN, event, live_service, post, slate


def checked(client, user):
    return [item for item, _ in slate(client, user_id=user)], [
        score for _, score in slate(client, user_id=user)
    ]


def test_states_are_the_same_after_a_restart(tmp_path):
    to = LiveTo(str(tmp_path / "state"))
    with live_service(to) as client:
        post(client, *(event(user, item, at) for user in ("a", "new") for at, item in enumerate(TAKEN)))
        before = [checked(client, user) for user in ("a", "b", "new")]
    assert (tmp_path / "state" / SNAPSHOT).is_dir()
    with live_service(to) as client:
        assert not (tmp_path / "state" / SNAPSHOT).exists()  # a forgotten user is in no old one
        for user, (items, scores) in zip(("a", "b", "new"), before, strict=True):
            found, again = checked(client, user)
            assert found == items
            assert again == pytest.approx(scores, rel=1e-4)
        sent_again = post(client, event("a", TAKEN[0], 0)).json()["live"]
        assert sent_again["duplicates"] == 1


def test_states_without_a_snapshot_are_computed_from_the_events(tmp_path):
    """A killed process writes none."""
    to = LiveTo(str(tmp_path))
    with live_service(to) as client:
        post(client, *(event("a", item, at) for at, item in enumerate(TAKEN)))
        items, scores = checked(client, "a")
    for path in (tmp_path / SNAPSHOT).iterdir():
        path.unlink()
    (tmp_path / SNAPSHOT).rmdir()
    with live_service(to) as client:
        found, again = checked(client, "a")
        assert (found, again) == (items, pytest.approx(scores, rel=1e-4))


def test_forgotten_user_stays_forgotten(tmp_path):
    to = LiveTo(str(tmp_path))
    with live_service(to) as client:
        post(client, event("a", "i20"))
    with live_service(to) as client:
        assert client.post("/v1/forget", json={"user_id": "a"}).json()["known_user"]
    with live_service(to) as client:
        assert not client.recommend(user_id="a").json()["known_user"]


def test_states_of_another_model_are_computed_again(tmp_path):
    to = LiveTo(str(tmp_path))
    with live_service(to) as client:
        post(client, event("a", "i20"))
    other = recommender(pipeline(model(seed=3)))
    with live_recommender(other, to) as one:
        assert one.states.history("a")[-1] == 20
        assert one.states.version != recommender().live().states.version
        assert one.states.query(["a"]).shape == (1, 8)


def test_one_process_at_a_time_has_a_folder(tmp_path):
    to = LiveTo(str(tmp_path))
    with (
        live_recommender(recommender(), to),
        pytest.raises(ArtifactError),
        live_recommender(recommender(), to),
    ):
        pass


def test_states_can_be_stored_in_fewer_bytes():
    sizes = {}
    for storage in ("fp32", "int8"):
        with live_service(LiveTo(settings=StateSettings(storage=storage))) as client:
            post(client, *(event(f"u{at}", "i20") for at in range(500)))
            sizes[storage] = client.service.recommender.states.memory().record_bytes
    assert sizes["int8"] < sizes["fp32"]


def test_service_that_is_stopped_has_no_live_users_open(tmp_path):
    app = make_app(recommender(), live_to=LiveTo(str(tmp_path)))
    assert not app.state.service.is_live
    assert (tmp_path / EVENTS).exists() is False
