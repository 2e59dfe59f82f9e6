import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.sweeps import curve_rows, experiment_name, name_of
from shortlist.lab.experiments.trees.trial import Trial


def runs(*values: float):
    return [{"": Scores({"f1@20": torch.tensor(values, dtype=torch.float64)}, {})}]


def test_a_usual_plan_has_the_name_of_its_method(data_setup):
    trial = Trial(data_setup, 0)
    assert name_of(trial, "dtr-u", {}) == "dtr-u"
    assert name_of(trial, "dtr-u", {"width": 24, "negatives": 8}) == "dtr-u"


def test_settings_that_differ_are_in_the_name(data_setup):
    name = name_of(Trial(data_setup, 0), "dtr-t", {"width": 12, "rounds": 1})
    assert name == "dtr-t, width 12, rounds 1"


def test_movielens_is_left_out_of_the_name():
    assert (experiment_name("dtr-fig4", "ml-1m"), experiment_name("dtr-fig4", "mind")) == (
        "dtr-fig4",
        "dtr-fig4-mind",
    )


def test_every_point_of_a_curve_is_a_row_with_its_x():
    rows = curve_rows({"dtr-u": {4: runs(0.0, 0.2), 8: runs(0.2, 0.4)}}, "world", ["f1@20"], [""])
    assert [(one.x, round(one.mean, 3)) for one in rows] == [(4, 0.1), (8, 0.3)]
    assert rows[0].method == "dtr-u on world"
