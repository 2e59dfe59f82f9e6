"""Events of live users over restarts of the service."""

import shutil
from dataclasses import replace

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.serve import LiveTo, make_app
from shortlist.serve.live import SNAPSHOT, live_recommender
from shortlist.state import StateSettings, UserEvent, UserHistories
from shortlist.state.events.archive import EVENTS
from tests.pipeline.live.live_users import model, pipeline, recommender

from .live_service import TAKEN, event, live_service, post, slate


def checked(client, user):
    return [item for item, _ in slate(client, user_id=user)], [
        score for _, score in slate(client, user_id=user)
    ]


def snapshots(folder):
    return list(folder.glob(f"{SNAPSHOT}*"))


def test_states_are_the_same_after_a_restart(tmp_path):
    to = LiveTo(str(tmp_path / "state"))
    with live_service(to) as client:
        post(client, *(event(user, item, at) for user in ("a", "new") for at, item in enumerate(TAKEN)))
        before = [checked(client, user) for user in ("a", "b", "new")]
    assert snapshots(tmp_path / "state")
    with live_service(to) as client:
        assert not snapshots(tmp_path / "state")  # a forgotten user is in no old one
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
    for path in snapshots(tmp_path):
        shutil.rmtree(path)
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


def test_forgotten_user_stays_forgotten_with_a_refreshed_bundle(tmp_path):
    to, old = LiveTo(str(tmp_path)), recommender()
    with live_recommender(old, to) as one:
        one.apply([UserEvent("a", "i20", 5000, "x")], 10_000)
        one.states.forget("a")
    with live_recommender(replace(old, about=replace(old.about, ends=20_000)), to) as one:
        assert not one.knows("a")


def test_answer_says_whether_the_user_stays_forgotten(tmp_path):
    for to, durable in ((LiveTo(str(tmp_path)), True), (LiveTo(), False)):
        with live_service(to) as client:
            assert client.post("/v1/forget", json={"user_id": "a"}).json()["durable"] is durable


def test_states_of_another_model_are_computed_again(tmp_path):
    to = LiveTo(str(tmp_path))
    with live_service(to) as client:
        post(client, event("a", "i20"))
    other = recommender(pipeline(model(seed=3)))
    with live_recommender(other, to) as one:
        assert one.states.history("a")[-1] == 20
        assert one.states.version != recommender().live().states.version
        assert one.states.query(["a"]).shape == (1, 8)


@pytest.mark.parametrize("change", ["storage", "damaged"])
def test_snapshot_that_does_not_fit_is_left_out(tmp_path, change):
    to = LiveTo(str(tmp_path))
    with live_service(to) as client:
        post(client, *(event("a", item, at) for at, item in enumerate(TAKEN)))
        items, _ = checked(client, "a")
    if change == "damaged":
        (snapshots(tmp_path)[0] / "manifest.json").write_text("{}")
    with live_service(
        LiveTo(str(tmp_path), StateSettings(storage="fp16" if change == "storage" else "fp32"))
    ) as client:
        assert checked(client, "a")[0] == items


def test_events_of_a_refreshed_bundle_count_once(tmp_path):
    """The new bundle has the events of its log in the histories; later ones are still live."""
    to, old = LiveTo(str(tmp_path)), recommender()
    with live_recommender(old, to) as one:
        one.apply([UserEvent("b", "i20", 5000, "x"), UserEvent("b", "i21", 9000, "y")], 10_000)
        assert one.states.history("b") == [7, 9, 20, 21]
        before = one.states.query(["b"])
    histories = UserHistories(
        torch.tensor([0, 5, 8, 11]), torch.tensor([1, 2, 3, 4, 5, 7, 9, 20, 11, 12, 13])
    )
    new = replace(old, histories=histories, about=replace(old.about, ends=5000))
    with live_recommender(new, to) as one:
        assert one.states.history("b") == [7, 9, 20, 21]
        torch.testing.assert_close(one.states.query(["b"]), before, rtol=1e-5, atol=1e-5)
        report = one.apply([UserEvent("b", "i22", 4000, "z")], 10_000)
        assert [one.code for one in report.rejected] == ["before_the_bundle"]


def test_users_who_pass_the_threshold_become_active_at_the_next_start(tmp_path):
    to, bundle = LiveTo(str(tmp_path)), recommender(pipeline(model(threshold=5, last=2, prior=0.1)))
    with live_recommender(bundle, to) as one:
        for user, count in (("many", 10), ("few", 3)):
            one.apply([UserEvent(user, f"i{at}", 5000 + at, at) for at in range(count)], 10_000)
        before = one.states.query(["many", "few"])
        assert one.states.report(10_000).promoted == 0
    with live_recommender(bundle, to) as one:
        assert one.states.report(10_000).promoted == 1
        after = one.states.query(["many", "few"])
    assert not torch.allclose(after[0], before[0], atol=1e-3)
    torch.testing.assert_close(after[1], before[1])


@pytest.mark.parametrize("ends", [1000, 5004])
def test_promotion_is_the_same_after_a_stop_a_kill_and_with_a_refreshed_bundle(tmp_path, ends):
    """A killed service has written no snapshot, and the one of another bundle is deleted."""
    to, bundle = LiveTo(str(tmp_path)), recommender(pipeline(model(threshold=5, last=2, prior=0.1)))
    with live_recommender(bundle, to) as one:
        one.apply([UserEvent("new", f"i{at}", 5010 + at, at) for at in range(10)], 10_000)
    found = []
    for stopped in (True, False):
        if not stopped:
            for path in snapshots(tmp_path):
                shutil.rmtree(path)
        with live_recommender(replace(bundle, about=replace(bundle.about, ends=ends)), to) as one:
            assert one.states.report(10_000).promoted == 1
            found.append(one.states.record("new"))
    assert found[0] == found[1]


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
