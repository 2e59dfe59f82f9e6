from shortlist.lab.theory.bounds_compare import compare_bounds
from shortlist.lab.theory.bounds_measured import Measured
from shortlist.lab.theory.bounds_table import bounds_lines, bounds_section
from shortlist.metrics.estimate import Estimate
from shortlist.report.page import Html, page
from tests.lab.theory.test_bounds_inputs import inputs

TABLE = compare_bounds(
    {"two": inputs(branch=2, n_users=100), "many | more": inputs(branch=32, n_users=100)},
    "two",
    {"two": Measured(Estimate(0.7, 0.68, 0.72), 0.73, Estimate(0.1), "nats")},
)


def test_the_section_starts_with_the_headline():
    assert "vacuous" in bounds_section(TABLE).parts[0]
    assert "vacuous" in bounds_lines(TABLE)[0]


def test_bounds_and_errors_are_in_different_tables():
    tables = [one.text for one in bounds_section(TABLE).parts if isinstance(one, Html)]
    assert len(tables) == 2
    assert (">ratio<" in tables[0], "hold-out error" in tables[0]) == (True, False)
    assert (">ratio<" in tables[1], "0.7000 [0.6800, 0.7200]" in tables[1]) == (False, True)


def test_markdown_has_a_row_for_every_term_and_escapes_bars():
    lines = bounds_lines(TABLE)
    rows = [line for line in lines if line.startswith("| two |") or line.startswith("| many \\| more |")]
    assert len(rows) == 2 * 6 + 1
    assert any("| rigorous | 0.5161 | yes | yes |" in line for line in rows)
    assert any("0.1000 nats" in line for line in rows)


def test_without_measurements_there_is_no_table_of_them():
    result = compare_bounds({"two": inputs()}, "two")
    assert not any("Measured" in line for line in bounds_lines(result))
    assert "<table>" in page("Bounds", [bounds_section(result)])


def test_assumptions_are_printed():
    lines = "\n".join(bounds_lines(TABLE))
    for text in (*TABLE.assumptions, "is not proven", "measured after training"):
        assert text in lines
