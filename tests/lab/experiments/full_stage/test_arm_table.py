"""Claims and tests of a table from planted values."""

import pytest

from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.lab.experiments.full_stage.arm_table import COLUMNS, ArmTable, Direction
from shortlist.lab.experiments.full_stage.arms import Arm
from shortlist.lab.experiments.full_stage.cells import Place, StageCell
from shortlist.lab.experiments.full_stage.order import order_agreement

PLACE, OTHER = Place("tiny", "requests", "retrieval"), Place("tiny", "cells", "retrieval")
VALUES = {"a": (0.30, 0.33, 0.36), "b": (0.20, 0.24, 0.25), "c": (0.31, 0.31, 0.31)}


@pytest.fixture
def table():
    cache, cells = AnswerCache.open(None), []
    for place, sign in ((PLACE, 1), (OTHER, -1)):
        for arm, values in VALUES.items():
            for seed, value in enumerate(values):
                cells.append(StageCell(place, Arm(arm), seed))
                facts = {
                    "metrics": dict.fromkeys(COLUMNS, sign * value),
                    "seconds": 1.0,
                    "chosen": {"temperature": 0.4},
                    "validation": {"0.1": {"0.001": 0.2, "0.01": value}, "0.4": {"0.001": 1.0}},
                }
                cache.put(str(cells[-1]), empty(), facts)
    return ArmTable.of(cells, cache)


def test_a_direction_holds_if_the_paired_interval_is_above_0(table) -> None:
    up, down, open_ = table.claims([Direction(PLACE, *pair) for pair in (("a", "b"), ("b", "a"), ("a", "c"))])
    assert up.holds
    assert up.estimate == pytest.approx(0.1)
    assert up.interval[0] > 0
    assert not down.holds
    assert not open_.holds
    assert "8 of 8 columns above" in up.note


def test_tests_of_all_columns_are_corrected_together(table) -> None:
    tests = table.tests([Direction(PLACE, "a", "b")])["a > b on tiny/requests/retrieval"]
    assert set(tests) == set(COLUMNS)
    figures = tests["precision@50"]
    assert figures["paired, Holm"] == pytest.approx(min(1.0, 8 * figures["paired"]))
    assert figures["difference"] == pytest.approx(0.1)


def test_an_arm_that_was_not_run_has_no_claim(table) -> None:
    assert table.claims([Direction(PLACE, "a", "absent")]) == []
    assert table.tests([Direction(PLACE, "a", "absent")]) == {}


def test_rows_have_one_value_per_seed(table) -> None:
    rows = {(row.method, row.metric): row.values for row in table.rows()}
    assert rows["a on tiny/requests/retrieval", "precision@50"] == (0.30, 0.33, 0.36)
    assert rows["a on tiny/requests/retrieval", "chosen temperature"] == (0.4, 0.4, 0.4)
    assert len(rows) == 6 * (len(COLUMNS) + 2)


def test_a_temperature_counts_with_its_best_learning_rate(table) -> None:
    rows = [row for row in table.temperature_rows() if row.method == f"a on {PLACE}"]
    assert {row.x: row.values for row in rows} == {0.1: (0.30, 0.33, 0.36), 0.4: (1.0, 1.0, 1.0)}


def test_opposite_orders_of_two_protocols_have_tau_minus_1(table) -> None:
    (row,) = order_agreement(table)
    assert row.values == (-1.0, -1.0, -1.0)
