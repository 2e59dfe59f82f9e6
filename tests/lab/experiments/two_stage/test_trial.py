"""A retriever, its flags and weights in a small trial."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.two_stage.trial import SMALL, Arm, TwoStages


@pytest.fixture(scope="module")
def stages(ground):
    return TwoStages(Trial(ground, 0, device="cpu"), SMALL)


@pytest.fixture(scope="module")
def forgetful(ground):
    """Histories are so short that most of what was met before is no longer in them."""
    one = TwoStages(Trial(ground, 0, device="cpu"), SMALL)
    one.max_history = 3
    return one


def before(stages, row):
    """All that was met before an instance, the slow way."""
    end = int(stages.windows.ends[stages.rows[row]])
    user = stages.events.users[end]
    return {int(stages.events.items[at]) for at in range(end) if stages.events.users[at] == user}


def test_no_instance_asks_for_what_was_met_before(forgetful):
    assert any(len(before(forgetful, row)) > 3 for row in range(0, len(forgetful.rows), 97))
    for row in range(0, len(forgetful.rows), 29):
        assert int(forgetful.wanted[row]) not in before(forgetful, row)


def test_flags_leave_out_what_test_users_are_never_served(forgetful, monkeypatch):
    """Whatever an instance is asked with, all that was met before is left out, as for test users."""
    asked = []

    def spied(index, history, k, *, beam, exclude):
        asked.append(exclude)
        return SimpleNamespace(items=torch.full((len(history), k), -1))

    monkeypatch.setattr("shortlist.lab.experiments.two_stage.trial.search", spied)
    forgetful._ask(None, forgetful.rows[:50])
    for row, seen in enumerate(asked[0].tolist()):
        assert set(seen) - {-1} == before(forgetful, row)


def test_flags_say_where_the_wanted_item_stands(stages):
    flags = stages.flags("crossfit")
    for row in range(0, len(stages.rows), 97):
        found, wanted = flags.found[row].tolist(), int(stages.wanted[row])
        assert flags.rank[row] == (found.index(wanted) if wanted in found else -1)
        assert not (set(found) - {-1}) & before(stages, row)


def test_flags_are_made_once_and_refused_for_another_beam(stages):
    assert stages.flags("crossfit") is stages.flags("crossfit")
    assert stages.flags("crossfit").made.beam == stages.beam
    with pytest.raises(ArtifactError, match="another system"):
        stages.flags("crossfit").check(beam=stages.beam + 1)


def test_weights_of_the_arms(stages):
    hit = stages.flags("crossfit").hit(16)
    assert set(stages.weights(Arm()).values) == {1.0}
    assert ((stages.weights(Arm(16)).values > 0) == hit).all()
    chance = stages.weights(Arm(16, subset=True)).values > 0
    assert chance.sum() == hit.sum()
    assert (chance != hit).any()
    assert stages.weights(Arm(16, blend=0.5)).values.min() > 0
    assert len(np.unique(stages.weights(Arm(16, soft=True)).values)) > 2


def test_the_guard_counts_what_the_flags_say(stages):
    assert stages.advice(Arm(16)).recall == pytest.approx(stages.flags("crossfit").hit(16).mean())


def test_candidates_leave_out_what_was_seen(stages):
    cases = stages.trial.split.test
    found = stages.candidates(cases)
    assert found.shape == (len(cases), 24)
    for row in range(0, len(cases), 7):
        seen = set(cases.events.items[cases.starts[row] : cases.cuts[row]].tolist())
        assert not seen & set(found[row].tolist())
        assert isinstance(found, torch.Tensor)
