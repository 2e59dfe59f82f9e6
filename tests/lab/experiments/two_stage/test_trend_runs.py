import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.index.tree import TreeShape
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.branches import nodes_scored
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.trend_runs import LOSSES, TreeSetting, run_of, settings_of
from shortlist.lab.theory.bounds_measured import hoeffding


@pytest.fixture(scope="module")
def trial(data_setup):
    return Trial(data_setup, 0, AnswerCache())


@pytest.fixture(scope="module")
def run(trial):
    return run_of(trial, TreeSetting(share=0.2))


def test_there_are_twenty_linear_configurations_with_unique_names():
    for quick in (True, False):
        names = [one.name for one in settings_of(quick)]
        assert len(set(names)) == len(names)
        assert sum(name.startswith("linear") for name in names) >= 20
    assert TreeSetting("attention", 4).name == "attention, 4 branches"
    assert TreeSetting(width=8, share=0.05, limit=2.0).name == (
        "linear, 8 branches, width 8, 5% of the users, vectors up to 2"
    )


def test_gaps_are_test_losses_minus_training_losses(run):
    users = [set(run.users_of(test).tolist()) for test in (False, True)]
    assert run.losses.shape == (2, 300, len(LOSSES))
    assert all(users)
    for loss in LOSSES:
        assert run.gap(loss) == pytest.approx(
            float(run.side(True, loss).mean() - run.side(False, loss).mean())
        )
    errors = torch.stack([run.side(True, loss) for loss in ("equal beam", "equal nodes", "all leaves")])
    assert set(errors.flatten().tolist()) <= {0.0, 1.0}


def test_the_ramp_loss_is_never_below_the_error_of_the_beam(run):
    for test in (False, True):
        assert bool((run.side(test, "ramp") >= run.side(test, "equal beam") - 1e-6).all())


def test_bounds_are_computed_from_the_training_instances(trial, run):
    whole = run_of(trial, TreeSetting())
    assert run.inputs.departures == ()
    assert run.inputs.n_users == round(0.2 * whole.inputs.n_users)
    assert run.terms["rigorous"] > whole.terms["rigorous"]
    assert run.terms["instances alone"] == run.inputs.n_train**-0.5
    assert 0 < run.facts["rademacher"] < run.terms["rigorous"]
    assert run_of(trial, TreeSetting(limit=0.5)).inputs.norms == "fixed"
    assert run_of(trial, TreeSetting(limit=0.5)).inputs.b0 == 0.5


def test_equal_nodes_are_no_more_than_those_of_two_branches(run):
    beam, even, everything = run.facts["beams"]
    shape = TreeShape(200, 8)
    assert nodes_scored(shape, even) <= nodes_scored(TreeShape(200, 2), beam)
    assert everything == 200


def test_attention_is_marked_as_outside_the_theorems(trial):
    found = run_of(trial, TreeSetting("attention", 2))
    assert "it normalises its layers" in found.inputs.departures
    assert "theorem 4" in found.terms
    assert "rademacher" not in found.facts


def test_measured_errors_have_exact_and_hoeffding_intervals(run):
    measured = run.measured()
    users = len(run.users_of(True).unique())
    assert measured.hoeffding == pytest.approx(min(1.0, measured.error.mean + hoeffding(users)))
    assert measured.error.low <= measured.error.mean <= measured.error.high <= 1
    assert measured.gap.mean == pytest.approx(run.gap("ramp"))


def test_a_run_is_trained_once(trial, run, monkeypatch):
    monkeypatch.setattr(
        "shortlist.lab.experiments.two_stage.trend_runs.train_linear", lambda *_: pytest.fail("trained again")
    )
    assert run_of(trial, TreeSetting(share=0.2)).gap("ramp") == run.gap("ramp")


def test_answers_of_another_experiment_are_refused(data_setup):
    cache = AnswerCache()
    cache.get("world/bounds-trend, linear, 8 branches/0", lambda: (torch.zeros(3), {}))
    with pytest.raises(ArtifactError, match="no run of this experiment"):
        run_of(Trial(data_setup, 0, cache), TreeSetting())
