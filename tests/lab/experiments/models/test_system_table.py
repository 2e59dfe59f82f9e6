"""Tables of systems from cached cells: seeds, pairing by user, and the claim that one system is above all."""

from collections.abc import Collection

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import AUTO, METRICS, Cell, Setup
from shortlist.lab.experiments.models.system_table import SystemTable

FILE, WORLD = Setup("ml-1m", "leave-last-out"), Setup("demo", "half-history")
USERS = 200


def values(mean: float, seed: int) -> torch.Tensor:
    """Metrics of users around a mean."""
    generator = torch.Generator().manual_seed(seed)
    return mean + 0.05 * torch.rand(len(METRICS), USERS, generator=generator)


def table(means: dict[str, float], setup: Setup = FILE, single: Collection[int] = ()) -> SystemTable:
    """Means by system on two seeds; `single` are the seeds that saved a single model."""
    cache, seeds = AnswerCache(), (0, 1)
    for system, mean in means.items():
        for seed in seeds[:1] if system in ("ease", "bert4rec") and setup == FILE else seeds:
            own = seed in single and system == AUTO
            facts = {"seconds": 1.5, "single": own, "plan": {"verdict": "ease is saved"}}
            cache.put(str(Cell(setup, system, seed)), values(mean, seed), facts)
    return SystemTable(cache, [setup], seeds, tuple(means))


def test_a_system_above_all_others_has_an_interval_above_zero():
    (found,) = table({AUTO: 0.4, "classic": 0.5, "ease": 0.3, "sasrec": 0.35}).claims()
    assert found.holds
    assert found.interval[0] > 0
    assert "above 2 of 2 models; the interval is that of the closest, sasrec" in found.note


def test_a_better_single_model_is_in_the_claim_that_fails():
    (found,) = table({AUTO: 0.4, "ease": 0.3, "sasrec": 0.5}).claims()
    assert not found.holds
    assert "above 1 of 2" in found.note
    assert "clearly below sasrec" in found.note


def test_a_saved_single_model_holds_only_if_no_other_is_better():
    equal, worse = (table({AUTO: 0.4, "ease": ease}, single=(0, 1)).claims()[0] for ease in (0.4, 0.5))
    assert equal.holds
    assert "a single model saved on 2 of 2 seeds: ease is saved" in equal.note
    assert not worse.holds
    assert not table({AUTO: 0.4, "ease": 0.4}).claims()[0].holds


@pytest.mark.parametrize(("ease", "holds"), [(0.4, False), (0.3, True)])
def test_a_single_model_saved_on_some_seeds_only_must_be_above_all(ease, holds):
    (found,) = table({AUTO: 0.4, "ease": ease}, single=(0,)).claims()
    assert "a single model saved on 1 of 2 seeds" in found.note
    assert found.holds == holds


def test_users_of_a_fixed_split_are_averaged_over_seeds_and_others_are_pooled():
    means = {AUTO: 0.4, "sasrec": 0.3}
    fixed, random = table(means), table(means, WORLD)
    assert fixed.compared(FILE, AUTO, "sasrec")[1] == USERS
    assert random.compared(WORLD, AUTO, "sasrec")[1] == 2 * USERS
    expected = torch.stack([values(0.4, 0)[0], values(0.4, 1)[0]]).mean(0)
    torch.testing.assert_close(fixed.user_values(FILE, AUTO), expected)


def test_counts_stand_for_all_seeds_and_a_model_of_one_seed_is_compared_on_that_seed():
    found = table({AUTO: 0.4, "ease": 0.3, "bert4rec": 0.3})
    assert list(found.values(FILE, "ease")) == [0, 1]
    assert list(found.values(FILE, "bert4rec")) == [0]
    test, _ = found.compared(FILE, AUTO, "bert4rec")
    assert test.difference == pytest.approx(0.1)  # the same seed: the same noise


def test_claim_names_the_models_that_were_not_run():
    full = table({AUTO: 0.4, "sasrec": 0.3})
    part = SystemTable(full.cache, [FILE], (0, 1), (AUTO, "sasrec", "gru4rec"))
    (made,) = part.claims()
    assert made.holds
    assert "above 1 of 1 models" in made.note
    assert "not run: gru4rec" in made.note
    assert set(part.skipped()) == {str(Cell(FILE, "gru4rec", seed)) for seed in (0, 1)}
    assert {one.method for one in part.rows()} == {f"{name} on {FILE}" for name in (AUTO, "sasrec")}
    alone = SystemTable(table({"sasrec": 0.3}).cache, [FILE], (0, 1), part.systems)
    assert not alone.claims()


def test_patterns_that_match_no_cell_are_refused():
    with pytest.raises(
        ConfigError, match=r"--only: expected patterns of cells like demo/half-history/ease/0, got x/\*"
    ):
        SystemTable.filled(AnswerCache(), [WORLD], (0,), ("ease",), is_quick=True, only=["x/*"])


def test_only_the_matching_cells_are_run():
    cache = AnswerCache()
    found = SystemTable.filled(cache, [WORLD], (0,), ("ease", "last-click"), is_quick=True, only=["*/ease/*"])
    assert list(cache.tensors) == ["demo/half-history/ease/0"]
    assert list(found.skipped()) == ["demo/half-history/last-click/0"]


def test_trees_are_run_only_where_a_pattern_names_them(monkeypatch):
    ran = []

    def stub(cell, folder, is_quick):
        ran.append(str(cell))
        return values(0.1, 0), {"seconds": 1.0}

    monkeypatch.setattr("shortlist.lab.experiments.models.parallel.run_cell", stub)
    SystemTable.filled(AnswerCache(), [WORLD], (0, 1), ("ease",), only=["demo/*"])
    assert ran == ["demo/half-history/ease/0", "demo/half-history/ease/1"]
    found = SystemTable.filled(AnswerCache(), [WORLD], (0, 1), only=["*/tdm/*"])
    assert ran[2:] == ["demo/half-history/tdm/0"]
    assert found.systems_on(WORLD) == ["tdm"]
