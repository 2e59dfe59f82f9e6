import json

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
    assert result_drawing(told(), "recall@20").startswith("<svg")


def test_all_claims_of_a_folder_stand_on_one_page(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(told()))
    assert "| [x](x.md) | c | yes |" in claims_page(tmp_path)
