import json
from pathlib import Path

import pytest

from shortlist.errors import DataError
from shortlist.lab import result as module
from shortlist.lab.result import (
    Claim,
    Row,
    at_least,
    at_most,
    claim,
    read_result,
    result,
    result_json,
    row,
    start,
)
from shortlist.pipeline.about import RetrievedTargets, TrainingHistory

RESULTS = Path(__file__).parents[2] / "results"


def write(path: Path, found) -> Path:
    path.write_text(json.dumps(result_json(found)), "utf-8")
    return path


def test_a_limit_is_part_of_its_claim():
    assert at_most("x", "here", 2.0, 1.0) == Claim("x", "here", False, 2.0, "at most 1")
    assert at_most("x", "here", 1.0, 1.0).holds
    assert at_least("x", "here", 1.0, 1.0).holds
    assert claim("x", "here", True, 0.5, "", [0.1, 0.9]).interval == (0.1, 0.9)


def test_a_row_has_mean_and_standard_deviation():
    assert row("m", "s", [1.0, 3.0]) == Row("m", "s", 2.0, 2**0.5, (1.0, 3.0))
    assert row("m", "s", [1.0], x=3).sd == 0.0


def test_a_result_records_machine_seeds_and_commit():
    found = result("n", "p", [4, 5], start(), [], [])
    assert found.seeds == (4, 5)
    assert "torch" in found.machine
    assert found.commit == module.commit()


@pytest.mark.parametrize(("status", "dirty"), [("", False), (" M src/a.py", True), (None, None)])
def test_a_result_records_uncommitted_changes(monkeypatch, status, dirty):
    monkeypatch.setattr(module, "_git", lambda *arguments: status if arguments[0] == "status" else "abc1234")
    found = result("n", "p", [0], start(), [], [])
    assert found.dirty is dirty
    assert result_json(found)["dirty"] is dirty


def test_outside_a_checkout_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "__file__", str(tmp_path / "result.py"))
    assert module.commit() == ""
    assert module.has_changes() is None


def test_absent_fields_are_left_out_of_the_json():
    plain = result_json(
        result("n", "p", [0], start(), [row("m", "s", [1.0])], [claim("c", "here", True, 1.0, "")])
    )
    assert plain["rows"] == [{"method": "m", "metric": "s", "mean": 1.0, "sd": 0.0, "values": [1.0]}]
    assert plain["claims"] == [{"id": "c", "source": "here", "holds": True, "estimate": 1.0, "note": ""}]
    keys = "name profile machine commit dirty package seeds seconds rows claims processor"
    assert list(plain) == keys.split()


def test_figures_of_a_benchmark_are_at_the_top_level_of_the_json():
    assert result_json(result("n", "p", [0], start(), [], [], figures={"ratio": 1.5}))["ratio"] == 1.5


def test_a_result_is_read_back_from_its_json(tmp_path):
    retrieved = RetrievedTargets("warn", 0.1, 10, 1, 0.5, 2, 0.2, reasons=("few",))
    found = result(
        "n",
        "p",
        [0],
        start(),
        [row("m", "s", [1.0, 2.0], x=4)],
        [claim("c", "here", True, 1.0, "", [0.0, 2.0])],
        settings={"m": {"width": 8}},
        training={"m/0": TrainingHistory(2, 5, 1, (0.2, 0.1), True, retrieved=retrieved)},
        x="items",
        note="once",
    )
    assert read_result(write(tmp_path / "n.json", found)) == found


@pytest.mark.parametrize("name", sorted(path.name for path in RESULTS.glob("*.json")))
def test_every_committed_result_keeps_its_values(name):
    text = (RESULTS / name).read_text("utf-8")
    found = read_result(RESULTS / name)
    written = result_json(found)
    committed = json.loads(text)
    assert {key: written[key] for key in committed} == committed
    assert set(written) - set(committed) <= {"dirty"}


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "x"}'])
def test_a_file_that_is_no_result_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text, "utf-8")
    with pytest.raises(DataError, match=r"x\.json: expected a result of `shortlist reproduce`"):
        read_result(tmp_path / "x.json")
