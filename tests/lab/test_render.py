"""Pages of results, and the tables of the docs against the committed results."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from shortlist.lab.render import MANY_LINES, MANY_ROWS, claims_page, result_drawing, result_page
from shortlist.lab.result import Difference, Result, Row, claim, read_result, result, result_json, row, start

ROOT = Path(__file__).parents[2]
SPREAD = r"\d\.\d{4} ± \d\.\d{4}"


def example() -> Result:
    rows = [row("a", "recall@20", [0.1, 0.2]), row("b", "ndcg@20", [0.3])]
    return result("x", "quick", [0, 1], start(), rows, [claim("c", "here", True, 0.5, "")])


def test_a_page_shows_every_row_with_its_values():
    page = result_page(example())
    assert "| a | recall@20 | 0.1500 |" in page
    assert "0.1000, 0.2000" in page
    assert "| c | yes | 0.5000 |  |  |" in page


def test_a_page_has_a_table_of_systems_where_differences_were_measured():
    rows = [row(f"{name} on log, split", "recall@20", [0.25]) for name in ("a", "b")]
    differences = (Difference("log, split", "a", "b", "recall@20", 0.1, 0.05, 0.15, 9),)
    page = result_page(replace(example(), rows=tuple(rows), differences=differences))
    assert "**log, split**\n\n| system | recall@20 | a - system, recall@20 |\n|---|---|---|" in page
    assert "| a | 0.25 |  |\n| b | 0.25 | +0.1000 [+0.0500, +0.1500] |" in page


def test_a_page_has_a_column_of_differences_for_each_reference():
    rows = [row(f"{name} on log", "recall@20", [0.3]) for name in "abc"]
    differences = [
        Difference("log", one, other, "recall@20", value, 0.0, 0.5, 0)
        for one, other, value in (("a", "b", 0.1), ("a", "c", 0.2), ("b", "a", 0.3), ("b", "c", 0.4))
    ]
    page = result_page(replace(example(), rows=tuple(rows), differences=tuple(differences)))
    assert "| system | recall@20 | a - system, recall@20 | b - system, recall@20 |\n|---|---|---|---|" in page
    assert "| a | 0.3 |  | +0.3000 [+0.0000, +0.5000] |" in page
    assert "| c | 0.3 | +0.2000 [+0.0000, +0.5000] | +0.4000 [+0.0000, +0.5000] |" in page


def test_differences_are_read_back(tmp_path):
    found = replace(example(), differences=(Difference("log", "a", "b", "recall@20", 0.1, 0.05, 0.15, 9),))
    (tmp_path / "x.json").write_text(json.dumps(result_json(found)))
    assert read_result(tmp_path / "x.json").differences == found.differences


def test_a_page_reports_uncommitted_changes():
    clean, dirty = (result_page(replace(example(), dirty=dirty)) for dirty in (False, True))
    assert "uncommitted" not in clean
    assert "with uncommitted changes" in dirty


def test_a_drawing_shows_one_metric():
    assert result_drawing(example()).startswith("<svg")


def test_rows_with_an_x_are_drawn_as_lines():
    bars = example()
    points = tuple(row("tree", "recall@20", [x / 10], x=x) for x in (4, 2, 8))
    curve = replace(bars, rows=bars.rows + points, x="branches")
    assert result_drawing(curve) != result_drawing(bars)
    assert "branches" in result_drawing(curve)
    assert "| recall@20 at 4 |" in result_page(curve)


def test_one_page_lists_all_claims_of_a_folder(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(result_json(example())))
    assert "| [x](x.md) | c | yes |" in claims_page(tmp_path)


def test_committed_pages_agree_with_committed_results():
    folder = ROOT / "results"
    assert (folder / "README.md").read_text("utf-8") == claims_page(folder)
    for path in folder.glob("*.json"):
        assert path.with_suffix(".md").read_text("utf-8") == result_page(read_result(path)), path.name


def committed(name: str) -> Result:
    return read_result(ROOT / "results" / f"{name}.json")


def means(name: str, metric: str) -> dict[str, str]:
    """Mean and standard deviation as the docs show them, by method."""
    rows = [one for one in committed(name).rows if one.metric == metric and one.x is None]
    return {one.method.partition(" on ")[0]: f"{one.mean:.4f} ± {one.sd:.4f}" for one in rows}


def section(title: str) -> str:
    """A section of the results page."""
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    start_at = text.index(f"\n## {title}\n")
    end = text.find("\n## ", start_at + 1)
    return text[start_at : end if end >= 0 else len(text)]


def table(title: str, head: str) -> list[list[str]]:
    """The cells of the rows of a table, without the header; `head` begins its first line."""
    part = section(title)
    lines = part[part.index(f"\n{head}") + 1 :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_figures_in_the_readme_are_those_of_the_results():
    text = (ROOT / "README.md").read_text("utf-8")
    names = {path.stem for path in (ROOT / "results").glob("*.json")}
    known = {f"{one.mean:.4f} ± {one.sd:.4f}" for name in names for one in committed(name).rows}
    assert set(re.findall(SPREAD, text)) <= known


def test_the_table_of_the_classic_pipeline_is_that_of_its_result():
    ((popularity, covisit, towers, pipeline),) = table("Classic pipeline", "| popularity |")
    values = means("classic-ml1m", "recall@20")
    assert [popularity, covisit, towers] == [values[name] for name in ("popularity", "covisit", "towers")]
    assert pipeline == f"**{values['pipeline']}**"


def test_the_losses_of_the_classic_pipeline_are_those_of_its_result():
    shares = {
        one.method.removeprefix("lost at "): f"{one.mean:.0%}".replace("%", " %")
        for one in committed("classic-ml1m").rows
        if one.method.startswith("lost at ")
    }
    quoted = re.findall(r"\d+ %", section("Classic pipeline").partition("Of all relevant items")[2])
    assert quoted[0] == shares["pool"]
    assert set(quoted[:4]) <= set(shares.values())


def model_name(cell: str) -> str:
    """The method of a row of the table of models: `sasrec`, `loss = "bce"` -> sasrec, bce."""
    name = re.sub(r'`, `loss = "(\w+)"`', r", \1", cell).strip("`")
    return name.replace("sasrec, sampled", "sasrec, sampled softmax")


def test_the_table_of_models_is_that_of_its_result():
    rows = [cells for cells in table("Single models", "| | recall@10 |") if cells[0]]
    shown = {model_name(name): (recall, ndcg) for name, recall, ndcg, *_ in rows}
    recall, ndcg = (means("baselines-ml1m", metric) for metric in ("recall@10", "ndcg@10"))
    assert shown == {name: (recall[name][:6], ndcg[name][:6]) for name in recall}


TREES = {
    "linear autoencoder (EASE)": "ease",
    "`otm`, after `jtm`": "otm",
    "DIN, every item scored": "din",
    "SASRec, every item scored": "sasrec",
}


def test_the_table_of_trees_is_that_of_its_results():
    first, *rows = table("Tree retrieval", "| | MovieLens-1M | MIND |")
    values = [means(name, "f1@20") for name in ("dtr-table2", "dtr-table2-mind")]
    simple = [", ".join(one[name][:6] for name in ("popularity", "item-knn")) for one in values]
    assert first == ["popularity, item neighbours", *simple]
    for name, *cells in rows:
        assert cells == [one[TREES.get(name, name.strip("`"))] for one in values], name
    assert len(rows) + 2 == len(values[0])


def test_the_steps_between_trees_are_claims_of_their_results():
    steps = table("Tree retrieval", "| step |")
    assert len(steps) == 10
    for column, name in enumerate(("dtr-table2", "dtr-table2-mind"), start=1):
        claims = {tuple(re.split(" >=? | on ", one.id)[:2]): one for one in committed(name).claims}
        for step in steps:
            upper, lower = (part.strip("`").lower() for part in step[0].split(" over "))
            one = claims[upper, lower]
            assert one.interval is not None
            low, high = one.interval
            assert step[column] == f"{one.estimate:.4f} [{low:.4f}, {high:.4f}]", step


ARMS = {
    "H-TS, filter ": "H-TS ",
    "as large as filter ": "as large as H-TS ",
    "flags in sample": "in sample",
    "candidates as negatives": "candidates",
    "both kinds of negatives": "both",
}
LEFT_OUT = "random subset as large as H-TS 80"


def arm_name(cell: str) -> str:
    """The method of a row of the tables of harmonised rankers: H-TS, filter 40 -> H-TS 40."""
    for text, method in ARMS.items():
        cell = cell.replace(text, method)
    return cell


@pytest.mark.parametrize(
    ("head", "name"), [("MovieLens-1M", "bounds-table1"), ("MIND", "bounds-table1-mind")]
)
def test_the_tables_of_harmonised_rankers_are_those_of_their_results(head, name):
    *rows, (alone, first, *_) = table("Harmonised rankers", f"| {head} |")
    values = {k: means(name, f"P@1, K={k}") for k in ("40", "80", "120", "N", "1")}
    assert len(rows) == len(set(values["40"]) - {LEFT_OUT})
    for arm, *cells in rows:
        assert cells == [values[k][arm_name(arm)] for k in ("40", "80", "120", "N")], arm
    assert (alone, first) == ("retriever alone, K = 1", values["1"]["retriever alone"])


def test_differences_of_harmonised_rankers_are_claims_of_their_results():
    known = {
        f"{one.estimate:+.4f}"
        for name in ("bounds-table1", "bounds-table1-mind")
        for one in committed(name).claims
    }
    quoted = set(re.findall(r"[+-]0\.\d{4}", section("Harmonised rankers")))
    assert quoted
    assert quoted <= known


def test_the_table_of_planted_stages_is_that_of_its_result():
    rows = table("Diagnosis on planted weak stages", "| planted |")
    values = {(one.method, one.metric): f"{one.mean:.4f}" for one in committed("planted-stage").rows}
    assert len(rows) == 5
    for plant, *cells in rows:
        assert cells == [
            values[f"{plant}, {relevant}", f"gain, {part}"]
            for relevant in ("liked items", "next item")
            for part in ("measured", "predicted", "best knob")
        ]


def test_the_table_of_the_closed_loop_is_that_of_its_result():
    (first, *totals), *rows = table("Full-stage training in a closed loop", "| arm - SSM |")
    head = section("Full-stage training in a closed loop").partition("| arm - SSM | ")[2].partition(" |\n")[0]
    places, result = head.split(" | "), committed("fsltr-closed-loop")
    values = {one.method: one.mean for one in result.rows if one.metric == "total utility"}
    differences = {(one.where, one.other): one for one in result.differences}
    assert first == "SSM itself"
    assert totals == [f"{values[f'SSM on {place}']:.2f}" for place in places]
    assert {arm for arm, *_ in rows} == {arm for _, arm in differences}
    for arm, *cells in rows:
        for place, cell in zip(places, cells, strict=True):
            one = differences[place, arm]
            assert cell == f"{-one.estimate:+.2f} [{-one.high:+.2f}, {-one.low:+.2f}]", (arm, place)


def test_every_table_with_figures_is_compared():
    """A new table in the results page needs a test above."""
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    tables = [
        block for block in re.split(r"\n\n", text) if block.startswith("|") and re.search(r"\d\.\d{4}", block)
    ]
    assert len(tables) == 7


def test_many_lines_are_drawn_in_a_plot_for_each_place():
    rows = tuple(
        Row(f"s{system} on {place}", "utility", float(system), 0.1, (float(system),), x=float(at))
        for system in range(MANY_LINES)
        for place in ("wide", "tight")
        for at in range(2)
    )
    assert result_drawing(replace(example(), rows=rows)).count('id="axes_') == 2


def test_points_of_curves_are_left_out_of_a_page_with_very_many_rows():
    mean = Row("a on wide", "utility", 0.25, 0.0, (0.25,))
    curve = tuple(replace(mean, x=float(at)) for at in range(MANY_ROWS))
    page = result_page(replace(example(), rows=(mean, *curve)))
    assert "| a on wide | utility | 0.2500 |" in page
    assert "utility at 1" not in page
