"""The pipeline against single models."""

from dataclasses import replace

import pytest
import torch

from shortlist.data import Interactions
from shortlist.data.split import leave_last_out
from shortlist.grammar import Pipeline
from shortlist.metrics.ranking import recall
from shortlist.metrics.significance import Interval
from shortlist.pipeline import run
from shortlist.pipeline.plan_report import ComparedModel, PlanReport
from shortlist.pipeline.recommender import resized
from shortlist.train.auto.guarantee import compared, part_slates, verdict, winner
from shortlist.train.measure import measure
from tests.train.logs import chains
from tests.worlds import listed


@pytest.fixture(scope="module")
def requests():
    events: Interactions = chains()
    return leave_last_out(events).valid


@pytest.fixture(scope="module")
def pipeline():
    first, second = listed("even", range(0, 20, 2)), listed("odd", range(1, 20, 2))
    return Pipeline((first % 8 + second % 6,))


def test_slates_of_nominators_in_one_run_are_those_of_each_alone(pipeline, requests):
    other = listed("other", [3, 1, 2])
    found = part_slates(pipeline, {"other": other}, requests)
    assert set(found.slates) == {"pipeline", "even", "odd", "other"}
    for name, stage in {**{one.title: one for one in pipeline.nominators}, "other": other}.items():
        query = requests.query(width=int(requests.history_lengths().max()))  # all in one batch, in order
        own = run(resized(Pipeline((stage,)), 20), query).items
        expected = torch.nn.functional.pad(own, (0, 20 - own.shape[1]), value=-1)
        assert found.slates[name].tolist() == expected.tolist(), name


def test_measured_figures_are_those_of_measure(pipeline, requests):
    assert part_slates(pipeline, {}, requests).measured == measure(pipeline, requests)


def test_differences_are_paired_and_best_model_comes_first(pipeline, requests):
    found = part_slates(pipeline, {}, requests)
    report = compared(PlanReport(), found, 0)
    relevant = requests.relevant()
    for one in report.compared:
        expected = recall(found.slates[one.name], relevant, 20).nanmean()
        assert one.recall == pytest.approx(float(expected))
        assert one.difference.mean == pytest.approx(report.recall - one.recall)
    assert [one.recall for one in report.compared] == sorted(
        (one.recall for one in report.compared), reverse=True
    )


REPORT = PlanReport(requests=100, recall=0.3)


def _against(difference: float, low: float, high: float) -> PlanReport:
    best = ComparedModel("ease", 0.3 - difference, Interval(difference, low, high))
    return replace(REPORT, compared=(best,))


def test_pipeline_above_every_model_is_saved():
    assert winner(_against(0.1, 0.05, 0.15)) is None
    assert "above every single model compared" in verdict(_against(0.1, 0.05, 0.15))
    assert "not compared: item_knn, last_click" in verdict(_against(0.1, 0.05, 0.15))
    assert "contains 0" in verdict(_against(0.1, -0.05, 0.15))


@pytest.mark.parametrize("difference", [0.0, -0.1])
def test_single_model_that_is_not_below_is_saved(difference):
    report = _against(difference, -0.2, 0.2)
    assert winner(report) == "ease"
    assert "the single model ease is saved" in verdict(report)


def test_without_validation_requests_the_pipeline_is_saved():
    assert winner(PlanReport()) is None
    assert "no validation requests" in verdict(PlanReport())


def test_verdict_says_that_there_is_one_nominator():
    assert "one nominator is all there is" in verdict(_against(0.0, 0.0, 0.0), only="ease")
    assert "the single model ease" in verdict(_against(-0.1, -0.2, 0.0), only="popular")
