"""A retriever, its flags and weights in a small trial."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, TwoStages


@pytest.fixture(scope="module")
def stages(data_setup):
    return TwoStages(Trial(data_setup, 0, device="cpu"), SMALL)


@pytest.fixture(scope="module")
def short_history(data_setup):
    """Models read so few items that most of a history is outside of them."""
    stages = TwoStages(Trial(data_setup, 0, device="cpu"), SMALL)
    stages.max_history = 3
    return stages


def history_of(stages, row):
    """All items before an instance, found in the log."""
    end = int(stages.windows.ends[stages.rows[row]])
    user = stages.events.users[end]
    return {int(stages.events.items[at]) for at in range(end) if stages.events.users[at] == user}


def test_no_target_of_an_instance_is_in_its_history(short_history):
    rows = range(0, len(short_history.rows), 97)
    assert any(len(history_of(short_history, row)) > 3 for row in rows)
    for row in range(0, len(short_history.rows), 29):
        assert int(short_history.targets[row]) not in history_of(short_history, row)


def test_flags_exclude_the_whole_history_as_for_test_users(short_history, monkeypatch):
    excluded = []

    def recorded(index, history, k, *, beam, exclude):
        excluded.append(exclude)
        return SimpleNamespace(items=torch.full((len(history), k), -1))

    monkeypatch.setattr("shortlist.lab.experiments.two_stage.trial.search", recorded)
    short_history._retrieve(None, short_history.rows[:50])
    for row, seen in enumerate(excluded[0].tolist()):
        assert set(seen) - {-1} == history_of(short_history, row)


def test_flags_hold_the_rank_of_the_target(stages):
    flags = stages.flags("crossfit")
    for row in range(0, len(stages.rows), 97):
        found, target = flags.found[row].tolist(), int(stages.targets[row])
        assert flags.rank[row] == (found.index(target) if target in found else -1)
        assert not (set(found) - {-1}) & history_of(stages, row)


def test_flags_are_made_once_and_refused_for_another_beam(stages):
    assert stages.flags("crossfit") is stages.flags("crossfit")
    assert stages.flags("crossfit").made.beam == stages.beam
    with pytest.raises(ArtifactError, match="different system"):
        stages.flags("crossfit").check(beam=stages.beam + 1)


def test_weights_of_the_arms(stages):
    hit = stages.flags("crossfit").hit(16)
    assert set(stages.weights(Arm()).values) == {1.0}
    assert ((stages.weights(Arm(16)).values > 0) == hit).all()
    random = stages.weights(Arm(16, subset=True)).values > 0
    assert random.sum() == hit.sum()
    assert (random != hit).any()
    assert stages.weights(Arm(16, blend=0.5)).values.min() > 0
    assert len(np.unique(stages.weights(Arm(16, soft=True)).values)) > 2


def test_the_guard_reports_the_recall_of_the_flags(stages):
    assert stages.guard(Arm(16)).recall == pytest.approx(stages.flags("crossfit").hit(16).mean())


def test_candidates_exclude_items_of_the_history(stages):
    held_out = stages.trial.split.test
    found = stages.candidates(held_out)
    assert found.shape == (len(held_out), 24)
    for row in range(0, len(held_out), 7):
        seen = set(held_out.events.items[held_out.starts[row] : held_out.cuts[row]].tolist())
        assert not seen & set(found[row].tolist())


def test_settings_of_an_arm_include_sizes_and_retriever(stages):
    settings = stages.settings(Arm(16, "candidates"))
    assert (settings["k"], settings["negatives"], settings["n_negatives"]) == (
        16,
        "candidates",
        SMALL.negatives,
    )
    assert settings["retriever"]["beam"] == stages.beam
    assert settings["masked"] == "all later items of the user"
