import json
from dataclasses import fields

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.errors import ArtifactError, ConfigError
from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.models import baselines
from shortlist.lab.experiments.models.baselines import (
    METRICS,
    POPULARITY,
    PUBLIC,
    STEPS,
    TRAINERS,
    baselines_ml1m,
    quick,
)
from shortlist.lab.experiments.models.trials import Course
from shortlist.lab.render import result_drawing, result_page
from tests.lab.experiments.shapes import check_shape, ids
from tests.lab.experiments.watching import watch_lessons

EVERYBODY = (*TRAINERS, POPULARITY)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return tmp_path_factory.mktemp("baselines") / "answers"


@pytest.fixture(scope="module")
def told(answers):
    return baselines_ml1m(None, "quick", [0], cache_file=answers)


def made_up(recall, ndcg=0.5, users=400):
    """Scores whose recall@10 has this mean, and all other metrics the other one."""
    hits = (torch.arange(users) < round(recall * users)).double()
    return Scores({name: hits if name == "recall@10" else torch.full((users,), ndcg) for name in METRICS}, {})


def test_every_model_stands_in_the_table_with_every_metric(told, world):
    check_shape(told, "baselines-ml1m")
    assert [(one["method"], one["metric"]) for one in told["rows"]] == [
        (name, metric) for name in EVERYBODY for metric in METRICS
    ]
    assert all(0 <= one["mean"] <= 1 and len(one["values"]) == 1 for one in told["rows"])
    assert ids(told) == {f"{name} > popularity" for name in TRAINERS}
    assert told["protocol"] == {"protocol": "leave-last-out", "users": len(world.users)}


def test_popularity_is_what_counting_says(told, world):
    split = world.split(protocol="leave-last-out")
    hits = []
    for case in range(len(split.test)):
        seen = set(split.test.query(slice(case, case + 1), width=1000).history[0].tolist())
        order = [
            row for row in np.argsort(-split.train.popularity, kind="stable").tolist() if row not in seen
        ]
        hits.append(split.test.relevant(slice(case, case + 1)).item() in order[:10])
    (found,) = [one for one in told["rows"] if (one["method"], one["metric"]) == (POPULARITY, "recall@10")]
    assert found["mean"] == pytest.approx(np.mean(hits))


def test_page_and_drawing_can_be_made_of_it(told):
    page = result_page(told)
    assert all(f"| {name} | recall@10 |" in page for name in EVERYBODY)
    assert result_drawing(told).startswith("<svg")


def test_kept_answers_make_the_same_table_by_the_command_without_training(
    told, answers, tmp_path, monkeypatch
):
    taught = watch_lessons(monkeypatch)
    asked = ["--runs", "1", "--keep", str(answers), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "baselines-ml1m", *asked])
    assert answer.exit_code == 0, answer.output
    again = json.loads(answer.stdout)
    assert again["rows"] == told["rows"]
    assert again["claims"] == told["claims"]
    assert taught == []
    assert (tmp_path / "baselines-ml1m-quick.svg").read_text().startswith("<svg")


def test_answers_of_other_settings_are_refused(told, answers, monkeypatch):
    other = {**TRAINERS, "ease": baselines.EASETrainer(ridge=3.0)}
    monkeypatch.setattr(baselines, "TRAINERS", other)
    with pytest.raises(
        ArtifactError, match=r"'world/ease/0' was kept with other settings \(ridge 250.0, now 3.0\)"
    ):
        baselines_ml1m(None, "quick", [0], cache_file=answers)


def test_only_some_train_only_those_and_claim_nothing(monkeypatch):
    taught = watch_lessons(monkeypatch)
    told = baselines_ml1m(None, "quick", [0, 1], only=["last-click", POPULARITY])
    assert taught == ["LastClickTrainer", "PopularWindowTrainer"] * 2
    assert {one["method"] for one in told["rows"]} == {"last-click", POPULARITY}
    assert all(len(one["values"]) == 2 for one in told["rows"])
    assert told["claims"] == []


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(
        ConfigError, match=r"baselines-ml1m: the full profile needs --data, a folder that holds ml-1m"
    ):
        baselines_ml1m(None, "full")


def full(monkeypatch, world, scores):
    """The full table of made-up scores."""
    monkeypatch.setattr(baselines, "dataset_of", lambda *_: world)
    monkeypatch.setattr(baselines, "answered", lambda course, name, profile: scores.get(name, made_up(0.2)))
    told = baselines_ml1m(None, "full", [0, 1])
    check_shape(told, "baselines-ml1m")
    return {one["id"]: one for one in told["claims"]}


def test_every_public_figure_is_a_claim_that_the_answers_decide(monkeypatch, world):
    low = full(monkeypatch, world, {name: made_up(0.0, 0.0) for name in EVERYBODY})
    high = full(
        monkeypatch, world, {name: made_up(0.9, 0.9) for name in EVERYBODY} | {POPULARITY: made_up(0.1)}
    )
    ours = {"sasrec, recall@10", "sasrec, ndcg@10", "bert4rec, recall@10"}
    public = {f"{name} {one.words}" for name, one in PUBLIC.items()}
    above = {f"{name} > popularity" for name in TRAINERS}
    steps = {f"{one} > {other}" for one, other in STEPS}
    assert set(low) == set(high) == ours | public | above | steps
    assert not any(one["holds"] for one in low.values())
    assert all(high[name]["holds"] for name in ours | public | above)
    for name, figure in PUBLIC.items():
        assert f"public {figure.recall:.4f}" in low[f"{name} {figure.words}"]["note"]
        assert figure.note in low[f"{name} {figure.words}"]["note"]


@pytest.mark.parametrize(
    ("name", "metric", "limit"), [("sasrec", "recall@10", 0.3), ("sasrec", "ndcg@10", 0.175)]
)
def test_what_sasrec_must_reach_is_a_claim_of_its_own(monkeypatch, world, name, metric, limit):
    given = {"recall": 0.9, "ndcg": 0.9}
    for off, holds in ((-0.01, False), (0.01, True)):
        given[metric.removesuffix("@10")] = limit + off
        claims = full(monkeypatch, world, {name: made_up(**given)})
        assert claims[f"{name}, {metric}"]["holds"] is holds
        assert claims[f"{name}, {metric}"]["estimate"] == pytest.approx(limit + off, abs=0.005)


def test_bert4rec_may_stay_three_percent_below_its_public_figure(monkeypatch, world):
    edge = 0.97 * PUBLIC["bert4rec"].recall
    for recall, holds in ((edge - 0.01, False), (edge + 0.01, True)):
        claims = full(monkeypatch, world, {"bert4rec": made_up(recall)})
        assert claims["bert4rec, recall@10"]["holds"] is holds


def test_a_model_is_above_popularity_when_its_users_say_so(monkeypatch, world):
    """Every model has recall 0.2 here; the claim turns with popularity's."""
    for popular, holds in ((0.1, True), (0.2, False), (0.3, False)):
        claims = full(monkeypatch, world, {POPULARITY: made_up(popular)})
        assert all(claims[f"{name} > popularity"]["holds"] is holds for name in TRAINERS)
        assert claims["ease > popularity"]["estimate"] == pytest.approx(0.2 - popular)


@pytest.mark.parametrize(("upper", "lower"), STEPS)
def test_what_a_step_brings_is_decided_by_both_its_sides(monkeypatch, world, upper, lower):
    for recall, holds in ((0.3, True), (0.2, False), (0.1, False)):
        claims = full(monkeypatch, world, {upper: made_up(recall)})
        assert claims[f"{upper} > {lower}"]["holds"] is holds
        assert claims[f"{upper} > {lower}"]["estimate"] == pytest.approx(recall - 0.2)


def test_users_count_once_however_many_seeds_there_are(monkeypatch, world):
    """Two seeds that say the same are no surer than one."""
    monkeypatch.setattr(baselines, "dataset_of", lambda *_: world)
    given = {POPULARITY: made_up(0.19)}
    monkeypatch.setattr(baselines, "answered", lambda course, name, _: given.get(name, made_up(0.2)))
    one, two = (baselines_ml1m(None, "full", seeds)["claims"] for seeds in ([0], [0, 1]))
    assert one == two


def test_every_public_figure_is_of_a_model_of_the_table():
    assert set(PUBLIC) <= set(TRAINERS)
    assert all(0 < figure.recall < 1 and figure.note for figure in PUBLIC.values())


@pytest.mark.parametrize("name", TRAINERS)
def test_a_quick_trainer_is_the_same_but_for_its_sizes(name):
    usual, small = TRAINERS[name], quick(TRAINERS[name])
    assert type(small) is type(usual)
    changed = {one.name for one in fields(usual) if getattr(usual, one.name) != getattr(small, one.name)}
    assert not changed & {
        "loss",
        "alpha",
        "early_stop_metric",
        "validation_cases",
        "learning_rate",
        "weight_decay",
        "days",
        "ridge",
        "neighbours",
    }
    assert getattr(small, "epochs", 0) <= 2


def test_full_trainers_are_judged_by_all_cases_and_the_metric_of_the_table():
    learning = [one for one in TRAINERS.values() if hasattr(one, "early_stop_metric")]
    assert len(learning) == 13
    assert all((one.early_stop_metric, one.validation_cases) == ("ndcg@10", 10_000) for one in learning)


def test_what_is_learned_does_not_know_the_held_out_events(told, world):
    """The split is that of the protocol: one event to test, one to choose by, of every user."""
    split = Course("world", world, 0, baselines.LEAVE_LAST_OUT).split
    assert len(split.test) == len(split.valid) == len(world.users)
    assert (split.test.stops - split.test.cuts == 1).all()
    assert len(split.train) == len(world.events) - 2 * len(world.users)


def test_a_bound_that_is_0_but_for_rounding_is_not_above():
    """Recalls that are thirds, as the mean over three seeds makes them; 33 is a draw whose interval begins at 0."""
    rng = np.random.default_rng(33)
    drawn = [torch.from_numpy(rng.integers(0, most, 12) / 3) for most in (4, 3)]
    ours, theirs = (Scores({"recall@10": one}, {}) for one in drawn)
    told = baselines._above("ours", {"ours": [ours], POPULARITY: [theirs]})
    assert 0 < told["interval"][0] < 1e-15
    assert not told["holds"]
