import json
import re
from pathlib import Path

from shortlist.report.result import claim, result, row, start
from shortlist.report.results import claims_page, result_drawing, result_page


def told():
    rows = [row("a", "recall@20", [0.1, 0.2]), row("b", "ndcg@20", [0.3])]
    return result("x", "quick", [0, 1], start(), rows, [claim("c", "here", True, 0.5, "")])


def test_a_page_shows_every_row_with_its_values():
    page = result_page(told())
    assert "| a | recall@20 | 0.1500 |" in page
    assert "0.1000, 0.2000" in page
    assert "| c | yes | 0.5000 |  |  |" in page


def test_the_drawing_shows_one_metric():
    assert result_drawing(told()).startswith("<svg")


def test_rows_with_a_place_are_drawn_as_lines_and_told_with_it():
    curve = told()
    curve["rows"] += [
        {**curve["rows"][0], "method": "tree", "x": place, "mean": place / 10} for place in (4, 2, 8)
    ]
    curve["x"] = "branches"
    assert result_drawing(curve) != result_drawing(told())
    assert f"| {curve['rows'][0]['metric']} at 4 |" in result_page(curve)


def test_all_claims_of_a_folder_stand_on_one_page(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(told()))
    assert "| [x](x.md) | c | yes |" in claims_page(tmp_path)


ROOT = Path(__file__).parents[2]


def test_the_pages_in_the_repository_are_those_of_its_data():
    folder = ROOT / "results"
    assert (folder / "README.md").read_text("utf-8") == claims_page(folder)
    for path in folder.glob("*.json"):
        assert path.with_suffix(".md").read_text("utf-8") == result_page(json.loads(path.read_text("utf-8")))


def test_the_numbers_in_the_readme_are_those_of_the_result():
    rows = json.loads((ROOT / "results" / "classic-ml1m.json").read_text("utf-8"))["rows"]
    means = {one["method"]: one for one in rows if one["metric"] == "recall@20"}
    shown = [
        f"{means[name]['mean']:.4f} ± {means[name]['sd']:.4f}"
        for name in ("popularity", "covisit", "towers", "pipeline")
    ]
    assert re.findall(r"\d\.\d{4} ± \d\.\d{4}", (ROOT / "README.md").read_text("utf-8")) == shown
