"""Cells of a plan, run and kept."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_time_scale.cells import fill
from shortlist.lab.experiments.two_time_scale.cells.fill import (
    BY_RATE,
    Plan,
    filled,
    rate_claims,
    run_state_cell,
    tuning_rows,
)
from shortlist.lab.experiments.two_time_scale.cells.places import FULL, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_cell import StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ADAM,
    ANCHORED,
    CCF,
    ONE_GRU,
    POPULAR,
    SYSTEMS,
    TABLES,
)


def test_an_answer_has_sums_by_user_curves_and_paths(place, data):
    tensor, facts = run_state_cell(StateCell(place, SYSTEMS[ANCHORED], 0), None, "cpu")
    assert tensor.dtype == torch.float32
    assert len(tensor) == len(set(data.test.users.tolist()))
    assert {"new users, raw", "steps since base, raw"} <= set(facts["curves"])
    assert set(facts["paths"]) == {"active", "inactive", "active, as new"}
    assert facts["seconds"] > 0
    assert 0 < facts["validation"] < 1


def test_cells_are_run_once_and_the_others_are_missing(tmp_path, monkeypatch):
    plan = Plan({place_of("world-tiny"): (POPULAR, CCF)}, (0,))
    path = tmp_path / "cache.st"
    _, cells, missing = filled(plan, path, ["*/popularity/*"])
    assert [str(cell) for cell in cells] == ["world-tiny/popularity/0", "world-tiny/ccf/0"]
    assert missing == {"world-tiny/ccf/0": "not run"}

    def refuse(*_, **__):
        raise AssertionError("run although the answer is cached")

    monkeypatch.setattr(fill, "run_state_cell", refuse)
    assert filled(plan, path, ["*/popularity/*"])[2] == missing
    with pytest.raises(ConfigError, match="--only: expected patterns of cells like"):
        filled(plan, path, ["ml-20m/*"])


def test_trials_cover_every_learning_rate_once():
    plan = Plan({place_of(FULL): (POPULAR, CCF, ONE_GRU, ANCHORED, "2ts plain")}, (0, 1))
    names = [str(cell) for cell in plan.trials()]
    assert len(names) == len(TABLES) + 3 * len(ADAM)
    assert names[0] == "world-tenth/ccf/tuning 0.01/0"
    assert names[-1] == "world-tenth/2ts plain/tuning 0.01/0"


def test_the_trial_with_the_chosen_rate_is_the_cell_of_its_seed(tmp_path, monkeypatch):
    plan, path = Plan({place_of("world-tiny"): (CCF,)}, (0, 1)), tmp_path / "cache.st"
    cache, _, missing = filled(plan, path, ["*/ccf/tuning 0.0*/0"])
    assert len(cache.tensors) == 2
    assert set(missing) == {"world-tiny/ccf/0", "world-tiny/ccf/1"}
    filled(plan, path, ["*/ccf/tuning 0.1/0"])
    monkeypatch.setattr(fill, "run_state_cell", lambda *_, **__: pytest.fail("trained again"))
    cache, _, missing = filled(plan, path, ["*/ccf/0"])
    name = "world-tiny/ccf/tuning 0.1/0"
    assert torch.equal(cache.tensors["world-tiny/ccf/0"], cache.tensors[name])
    assert missing == {"world-tiny/ccf/1": "not run"}
    found = {one.x: one.mean for one in tuning_rows(plan, cache)}
    assert set(found) == set(TABLES)
    assert found[0.1] == cache.facts["world-tiny/ccf/0"]["validation"]
    assert {one.metric for one in tuning_rows(plan, cache)} == {BY_RATE}


def test_the_rate_of_a_table_must_be_the_best_one_tried():
    plan, cache = Plan({place_of("world-tiny"): (CCF,)}, (0,)), AnswerCache()
    for cell in plan.trials():
        assert list(rate_claims(plan, cache)) == []
        cache.put(str(cell), torch.empty(0), {"validation": cell.rate}, cell.settings)
    (found,) = rate_claims(plan, cache)
    assert found.holds
    assert "0.01 0.0100, 0.03 0.0300, 0.1 0.1000" in found.note
    cache.put("world-tiny/ccf/tuning 0.03/0", torch.empty(0), {"validation": 1.0})
    assert [one.holds for one in rate_claims(plan, cache)] == [False]
