from dataclasses import replace

import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench import train, train_job
from shortlist.pipeline import parse_recipe

RECIPE = """
name = "small"
pipeline = "sequence % 20 + ease % 20"

[stages.sequence]
type = "gru4rec"

[stages.ease]
type = "ease"
"""


def test_benchmark_compares_a_training_with_its_budget_and_its_planned_parts(monkeypatch):
    planned = []

    def dropping(data, minutes, seed):
        """A training that drops a planned nominator."""
        plan, trained = training(data, minutes, seed)
        planned.extend(plan.recipe.stages)
        report = replace(trained.about.plan, dropped={planned[0]: "adds nothing"})
        return plan, replace(trained, about=replace(trained.about, plan=report))

    training = train_job.planned_training
    monkeypatch.setattr(train_job, "planned_training", dropping)
    monkeypatch.setattr(train, "_child", train_job.job)
    made = train.bench_train(minutes=0.05, size="small")
    seconds = {one.method: one.mean for one in made.rows if one.metric == "seconds"}
    whole = seconds.pop("auto")
    assert sorted(seconds) == sorted(planned)
    assert made.figures["auto_over_parts"] == pytest.approx(whole / sum(seconds.values()))
    assert made.figures["seconds_over_budget"] == pytest.approx(whole / 3)
    assert made.figures["peak_mib"] > 0
    assert "2 cores" in made.profile


def test_any_sequence_model_of_the_trained_pool_counts():
    recipe = parse_recipe(RECIPE)
    assert train_job.has_sequence_model(recipe, ())
    assert train_job.has_sequence_model(recipe, ("ease",))
    assert not train_job.has_sequence_model(recipe, ("sequence",))


def test_failed_job_is_an_error():
    with pytest.raises(ShortlistError, match="bench train: the job failed"):
        train.bench_train(size="huge")
