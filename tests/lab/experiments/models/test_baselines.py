import json

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
from shortlist.lab.experiments.models.trials import ModelTrial
from shortlist.lab.render import result_drawing, result_page
from shortlist.lab.result import result_json
from shortlist.train.models.counting.ease import EASETrainer
from tests.lab.experiments.results import check_result, ids
from tests.lab.experiments.training_calls import record_training

SYSTEMS = (*TRAINERS, POPULARITY)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return tmp_path_factory.mktemp("baselines") / "answers"


@pytest.fixture(scope="module")
def result(answers):
    return baselines_ml1m(None, "quick", [0], cache_file=answers)


def synthetic_scores(recall, ndcg=0.5, users=400):
    """Scores with this mean of recall@10, and one value of all other metrics."""
    hits = (torch.arange(users) < round(recall * users)).double()
    return Scores({name: hits if name == "recall@10" else torch.full((users,), ndcg) for name in METRICS}, {})


def test_every_model_has_a_row_for_every_metric(result, world):
    check_result(result, "baselines-ml1m")
    assert [(one.method, one.metric) for one in result.rows] == [
        (name, metric) for name in SYSTEMS for metric in METRICS
    ]
    assert all(0 <= one.mean <= 1 and len(one.values) == 1 for one in result.rows)
    assert ids(result) == {f"{name} > popularity" for name in TRAINERS}
    assert result.protocol == {"protocol": "leave-last-out", "users": len(world.users)}


def test_popularity_agrees_with_counting(result, world):
    split = world.split(protocol="leave-last-out")
    hits = []
    for case in range(len(split.test)):
        seen = set(split.test.query(slice(case, case + 1), width=1000).history[0].tolist())
        order = [
            row for row in np.argsort(-split.train.popularity, kind="stable").tolist() if row not in seen
        ]
        hits.append(split.test.relevant(slice(case, case + 1)).item() in order[:10])
    (found,) = [one for one in result.rows if (one.method, one.metric) == (POPULARITY, "recall@10")]
    assert found.mean == pytest.approx(np.mean(hits))


def test_the_result_has_a_page_and_a_drawing(result):
    page = result_page(result)
    assert all(f"| {name} | recall@10 |" in page for name in SYSTEMS)
    assert result_drawing(result).startswith("<svg")


def test_the_command_makes_the_same_table_from_the_cache_without_training(
    result, answers, tmp_path, monkeypatch
):
    called = record_training(monkeypatch)
    arguments = ["--runs", "1", "--cache", str(answers), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "baselines-ml1m", *arguments])
    assert answer.exit_code == 0, answer.output
    again, expected = json.loads(answer.stdout), result_json(result)
    assert again["rows"] == expected["rows"]
    assert again["claims"] == expected["claims"]
    assert called == []
    assert (tmp_path / "baselines-ml1m-quick.svg").read_text().startswith("<svg")


def test_answers_of_other_settings_are_refused(result, answers, monkeypatch):
    other = {**TRAINERS, "ease": EASETrainer(ridge=3.0)}
    monkeypatch.setattr(baselines, "TRAINERS", other)
    with pytest.raises(
        ArtifactError, match=r"'world/ease/0' was cached with other settings \(ridge 250.0, now 3.0\)"
    ):
        baselines_ml1m(None, "quick", [0], cache_file=answers)


def test_only_some_models_are_trained_and_no_claims_are_made(monkeypatch):
    called = record_training(monkeypatch)
    result = baselines_ml1m(None, "quick", [0, 1], only=["last-click", POPULARITY])
    assert called == ["LastClickTrainer", "PopularWindowTrainer"] * 2
    assert {one.method for one in result.rows} == {"last-click", POPULARITY}
    assert all(len(one.values) == 2 for one in result.rows)
    assert result.claims == ()


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(
        ConfigError, match=r"baselines-ml1m: the full profile needs --data, a folder that holds ml-1m"
    ):
        baselines_ml1m(None, "full")


def full(monkeypatch, world, scores):
    """The claims of the full table for given scores."""
    monkeypatch.setattr(baselines, "dataset_of", lambda *_: world)
    monkeypatch.setattr(
        baselines, "scores_of", lambda trial, name, profile: scores.get(name, synthetic_scores(0.2))
    )
    result = baselines_ml1m(None, "full", [0, 1])
    check_result(result, "baselines-ml1m")
    return {one.id: one for one in result.claims}


def test_every_public_figure_is_a_claim(monkeypatch, world):
    low = full(monkeypatch, world, {name: synthetic_scores(0.0, 0.0) for name in SYSTEMS})
    high = full(
        monkeypatch,
        world,
        {name: synthetic_scores(0.9, 0.9) for name in SYSTEMS} | {POPULARITY: synthetic_scores(0.1)},
    )
    ours = {"sasrec, recall@10", "sasrec, ndcg@10", "bert4rec, recall@10"}
    public = {f"{name} {one.text}" for name, one in PUBLIC.items()}
    above = {f"{name} > popularity" for name in TRAINERS}
    steps = {f"{one} > {other}" for one, other in STEPS}
    assert set(low) == set(high) == ours | public | above | steps
    assert not any(one.holds for one in low.values())
    assert all(high[name].holds for name in ours | public | above)
    for name, figure in PUBLIC.items():
        assert f"public {figure.recall:.4f}" in low[f"{name} {figure.text}"].note
        assert figure.note in low[f"{name} {figure.text}"].note


@pytest.mark.parametrize(
    ("name", "metric", "limit"), [("sasrec", "recall@10", 0.3), ("sasrec", "ndcg@10", 0.175)]
)
def test_the_target_of_sasrec_is_a_claim(monkeypatch, world, name, metric, limit):
    values = {"recall": 0.9, "ndcg": 0.9}
    for off, holds in ((-0.01, False), (0.01, True)):
        values[metric.removesuffix("@10")] = limit + off
        claims = full(monkeypatch, world, {name: synthetic_scores(**values)})
        assert claims[f"{name}, {metric}"].holds is holds
        assert claims[f"{name}, {metric}"].estimate == pytest.approx(limit + off, abs=0.005)


def test_bert4rec_may_miss_its_public_figure_by_three_percent(monkeypatch, world):
    edge = 0.97 * PUBLIC["bert4rec"].recall
    for recall, holds in ((edge - 0.01, False), (edge + 0.01, True)):
        claims = full(monkeypatch, world, {"bert4rec": synthetic_scores(recall)})
        assert claims["bert4rec, recall@10"].holds is holds


def test_a_model_is_above_popularity_if_its_interval_is(monkeypatch, world):
    """Every model has recall 0.2 here; the recall of popularity decides the claim."""
    for popular, holds in ((0.1, True), (0.2, False), (0.3, False)):
        claims = full(monkeypatch, world, {POPULARITY: synthetic_scores(popular)})
        assert all(claims[f"{name} > popularity"].holds is holds for name in TRAINERS)
        assert claims["ease > popularity"].estimate == pytest.approx(0.2 - popular)


@pytest.mark.parametrize(("upper", "lower"), STEPS)
def test_a_step_compares_both_of_its_models(monkeypatch, world, upper, lower):
    for recall, holds in ((0.3, True), (0.2, False), (0.1, False)):
        claims = full(monkeypatch, world, {upper: synthetic_scores(recall)})
        assert claims[f"{upper} > {lower}"].holds is holds
        assert claims[f"{upper} > {lower}"].estimate == pytest.approx(recall - 0.2)


def test_users_count_once_for_any_number_of_seeds(monkeypatch, world):
    """Two equal seeds give the same interval as one."""
    monkeypatch.setattr(baselines, "dataset_of", lambda *_: world)
    scores = {POPULARITY: synthetic_scores(0.19)}
    monkeypatch.setattr(
        baselines, "scores_of", lambda trial, name, _: scores.get(name, synthetic_scores(0.2))
    )
    one, two = (baselines_ml1m(None, "full", seeds).claims for seeds in ([0], [0, 1]))
    assert one == two


def test_every_public_figure_belongs_to_a_model():
    assert set(PUBLIC) <= set(TRAINERS)
    assert all(0 < figure.recall < 1 and figure.note for figure in PUBLIC.values())


@pytest.mark.parametrize("name", TRAINERS)
def test_a_quick_trainer_differs_only_in_sizes(name):
    usual, small = TRAINERS[name], quick(TRAINERS[name])
    assert type(small) is type(usual)
    before, after = usual.settings(), small.settings()
    changed = {name for name, value in before.items() if after[name] != value}
    assert not changed & {
        "loss",
        "alpha",
        "early_stop_metric",
        "validation_users",
        "learning_rate",
        "weight_decay",
        "days",
        "ridge",
        "neighbours",
    }
    assert getattr(small, "epochs", 0) <= 2


def test_full_trainers_validate_on_all_users_with_ndcg():
    trained = [one for one in TRAINERS.values() if hasattr(one, "early_stop_metric")]
    assert len(trained) == 13
    assert all((one.early_stop_metric, one.validation_users) == ("ndcg@10", 10_000) for one in trained)


def test_models_are_not_trained_on_held_out_events(result, world):
    """The split has one test and one validation event per user."""
    split = ModelTrial("world", world, 0, baselines.LEAVE_LAST_OUT).split
    assert len(split.test) == len(split.valid) == len(world.users)
    assert (split.test.stops - split.test.cuts == 1).all()
    assert len(split.train) == len(world.events) - 2 * len(world.users)


def test_an_interval_end_of_0_up_to_rounding_is_not_above():
    """Recalls that are thirds, as the mean over three seeds makes them; 148 is a seed whose interval begins at 0."""
    rng = np.random.default_rng(148)
    sampled = [torch.from_numpy(rng.integers(0, most, 12) / 3) for most in (4, 3)]
    ours, theirs = (Scores({"recall@10": one}, {}) for one in sampled)
    result = baselines._above("ours", {"ours": [ours], POPULARITY: [theirs]})
    assert 0 < result.interval[0] < 1e-15
    assert not result.holds
