"""The quick profile of the table of `auto` and all single models, with a stub in place of `auto`."""

from functools import partial

import pytest

from shortlist.lab.experiments.models import cells
from shortlist.lab.experiments.models.auto_table import SETUPS, auto_table
from shortlist.lab.render import result_page
from shortlist.pipeline import shipped_recipe
from shortlist.train import train

from ..results import check_result


@pytest.fixture(autouse=True)
def _auto(monkeypatch):
    def stub(recipe, dataset, minutes=0.0, **options):
        return train(shipped_recipe("item-knn"), dataset, **options)

    monkeypatch.setattr(cells, "train", stub)


def test_the_quick_profile_has_rows_differences_and_claims(tmp_path):
    cache = tmp_path / "cells.safetensors"
    result = auto_table(None, "quick", seeds=[0], cache_file=cache)
    check_result(result, "auto-table")
    assert {"auto on demo, half-history", "sasrec on power-law, global-time"} <= {
        one.method for one in result.rows
    }
    claims = [one.id for one in result.claims]
    setups = ["demo, half-history", "power-law, global-time", "demo, half-history"]
    assert [one.rpartition(" on ")[2] for one in claims] == setups
    assert claims[-1].startswith("auto > ease")
    assert result.settings["demo/half-history/auto/0"]["single"]
    assert "| auto - system, recall@20 |" in result_page(result)
    assert result.skipped == {}


def _never(*_: object, **settings: object) -> None:
    raise AssertionError("nothing is trained again")


def test_the_table_of_one_protocol_comes_from_the_same_cache(tmp_path, monkeypatch):
    cache = tmp_path / "cells.safetensors"
    auto_table(None, "quick", seeds=[0], cache_file=cache, only=["power-law/*/ease/*"])
    monkeypatch.setattr("shortlist.lab.experiments.models.parallel.run_cell", _never)
    made = partial(auto_table, name="global-time", protocol="global-time")
    result = made(None, "quick", seeds=[0], cache_file=cache, only=["*/ease/*"])
    check_result(result, "global-time")
    assert {one.method for one in result.rows} == {"ease on power-law, global-time"}
    assert len(result.skipped) == 3


def test_the_full_profile_has_every_data_set_and_protocol_of_the_issue():
    found = {(one.data, one.protocol) for one in SETUPS}
    assert {("ml-1m", name) for name in ("half-history", "leave-last-out", "global-time")} < found
    assert {one.data for one in SETUPS} == {
        "ml-1m",
        "mind",
        "demo",
        "amazon-like",
        "power-law",
        "power-law-repeats",
    }
