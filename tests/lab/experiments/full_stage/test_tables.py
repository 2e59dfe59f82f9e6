"""The quick profiles of the tables."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.full_stage import cells
from shortlist.lab.experiments.full_stage.ablations import ARMS, EXPECTED
from shortlist.lab.experiments.full_stage.cells import run_stage_cell
from shortlist.lab.experiments.full_stage.table3 import EXPECTED as EXPECTED_3
from shortlist.lab.experiments.full_stage.table3 import fsltr_table3, places_of
from tests.lab.experiments.results import check_result, ids

SEEDS = (0, 1)
ONLY = ("*/BPR/*", "*/SSM/*", "*/random/*", "*/BCE/*")


@pytest.fixture(scope="module")
def cache_file(tmp_path_factory):
    return tmp_path_factory.mktemp("table3") / "cells.safetensors"


@pytest.fixture(scope="module")
def quick(cache_file):
    return fsltr_table3(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)


def test_claims_are_the_directions_of_arms_that_were_run(quick) -> None:
    check_result(quick, "fsltr-table3")
    assert ids(quick) == {
        "SSM > BPR on tiny/requests/retrieval",
        "BPR > random on tiny/requests/retrieval",
        "BCE > random on tiny/requests/pre-rank",
        "SSM > BPR on tiny/cells/retrieval",
        "BPR > random on tiny/cells/retrieval",
    }
    assert set(quick.tests) == ids(quick)


def test_rows_have_masked_columns_and_the_utility_of_retrieval(quick) -> None:
    found = {(row.method, row.metric) for row in quick.rows}
    place = "tiny/requests/retrieval"
    assert {
        (f"SSM on {place}", name) for name in ("masked ndcg@20", "ndcg_hits@50", "tight utility")
    } <= found
    assert ("BCE on tiny/requests/pre-rank", "utility") not in found


def test_cells_that_were_not_run_are_named_and_finished_ones_are_not_run_again(
    quick, cache_file, monkeypatch
) -> None:
    assert quick.skipped["tiny/requests/retrieval/LCRON/0"] == "not run"

    def refused(*_, **__):
        raise AssertionError

    monkeypatch.setattr(cells, "run_stage_cell", refused)
    again = fsltr_table3(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)
    assert again.rows == quick.rows


def test_the_same_cell_has_the_same_answer(quick, grids_folder) -> None:
    cell = cells.StageCell(*next((place, arms[1]) for place, arms in places_of("tiny").items()), 0)
    metrics = run_stage_cell(cell, grids_folder, device="cpu")[1]["metrics"]
    rows = {row.metric: row.values[0] for row in quick.rows if row.method == f"BPR on {cell.place}"}
    assert metrics["precision@50"] == pytest.approx(rows["precision@50"], abs=2e-3)


@pytest.mark.parametrize("name", sorted(ARMS))
def test_tables_of_lists_have_a_claim_for_every_direction(name) -> None:
    found = EXPERIMENTS[name](None, "quick", SEEDS)
    check_result(found, name)
    assert len(found.claims) == len(EXPECTED[name])
    assert found.skipped == {}


def test_directions_name_arms_of_their_tables() -> None:
    for place, arms in places_of("tiny").items():
        names = {arm.name for arm in arms}
        assert all({high, low} <= names for high, low, _ in EXPECTED_3[place.stage])
    for table, arms in ARMS.items():
        names = {arm.name for arm in arms}
        assert all({high, low} <= names for high, low, _ in EXPECTED[table])


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="quick or full"):
        fsltr_table3(None, "medium")
