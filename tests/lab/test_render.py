import json
import re
from pathlib import Path
from typing import Any

from shortlist.lab.render import claims_page, result_drawing, result_page
from shortlist.lab.result import claim, result, row, start


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


def published(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))
    return data


def means(name: str, metric: str) -> dict[str, str]:
    """Mean and spread as the README shows them, by method."""
    rows = [one for one in published(name)["rows"] if one["metric"] == metric and "x" not in one]
    return {one["method"].partition(" on ")[0]: f"{one['mean']:.4f} ± {one['sd']:.4f}" for one in rows}


SHOWN = (
    "sasrec",
    "sasrec, sampled softmax",
    "gru4rec",
    "bert4rec",
    "fmlp",
    "last-click",
    "ease",
    "lightgcn",
    "item-knn",
    "mf, bpr",
    "popularity",
)


def baselines() -> list[dict[str, str]]:
    return [means("baselines-ml1m", metric) for metric in ("recall@10", "ndcg@10")]


def test_the_numbers_in_the_readme_are_those_of_the_results():
    classic = means("classic-ml1m", "recall@20")
    tables = [means(name, "f1@20") for name in ("dtr-table2", "dtr-table2-mind")]
    trees = ("ease", "plt", "tdm", "jtm", "otm", "dtr-u", "dtr-t", "dtr-t-rl", "din", "sasrec")
    shown = [classic[name] for name in ("popularity", "covisit", "towers", "pipeline")]
    shown += [table[name] for name in trees for table in tables]
    shown += [values[name] for name in SHOWN for values in baselines()]
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.findall(r"\d\.\d{4} ± \d\.\d{4}", text) == shown
    simple = [", ".join(table[name][:6] for name in ("popularity", "item-knn")) for table in tables]
    assert f"| popularity, item neighbours | {simple[0]} | {simple[1]} |" in text


def test_the_yardsticks_in_the_results_page_are_those_of_the_results():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    part = text[text.index("## What the yardsticks reach") : text.index("**Why above")]
    rows = re.findall(r"^\| (\S[^|]*?) \| (\d\.\d{4}) \| (\d\.\d{4}) \|", part, re.MULTILINE)
    recall, ndcg = baselines()
    told = {re.sub(r'`, `loss = "(\w+)"`', r", \1", name).strip("`"): pair for name, *pair in rows}
    told = {name.replace("sasrec, sampled", "sasrec, sampled softmax"): pair for name, pair in told.items()}
    assert told == {name: [recall[name][:6], ndcg[name][:6]] for name in recall}


def test_the_steps_of_table_2_are_those_of_its_claims():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    steps = re.findall(r"^\| (\S+) over (\S+) \| (.+) \| (.+) \|$", text, re.MULTILINE)
    assert len(steps) == 10
    for column, name in enumerate(("dtr-table2", "dtr-table2-mind")):
        claims = {tuple(re.split(" >=? | on ", one["id"])[:2]): one for one in published(name)["claims"]}
        for step in steps:
            one = claims[step[0].strip("`").lower(), step[1].strip("`").lower()]
            low, high = one["interval"]
            assert step[2 + column] == f"{one['estimate']:.4f} [{low:.4f}, {high:.4f}]", step


def test_the_tables_of_two_stages_are_those_of_their_results():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    part = text[text.index("## What learning on the retrieved brings") : text.index("## What bounds tell")]
    names = {"H-TS, filter": "H-TS", "by chance as filter": "by chance as", "80, flags in": "80, in"}
    names |= {"candidates as negatives": "candidates", "both kinds of negatives": "both"}
    for head, name in (("MovieLens-1M", "bounds-table1"), ("MIND", "bounds-table1-mind")):
        table = part[part.index(f"| {head} |") :].partition("\n\n")[0].splitlines()[2:]
        values = {k: means(name, f"P@1, K={k}") for k in ("40", "80", "120", "N", "1")}
        assert len(table) - 1 == len(set(values["40"]) - {"as many by chance as 80"})
        for line in table[:-1]:
            arm, *cells = [one.strip() for one in line.strip("|").split("|")]
            for said, meant in names.items():
                arm = arm.replace(said, meant)
            assert cells == [values[k][arm] for k in ("40", "80", "120", "N")], arm
        assert values["1"]["retriever alone"] in table[-1]


def test_the_differences_told_of_two_stages_are_those_of_their_claims():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    part = text[text.index("**What it says.** A difference") : text.index("## What bounds tell")]
    told = set(re.findall(r"[+-]0\.\d{4}", part))
    known = {
        f"{one['estimate']:+.4f}"
        for name in ("bounds-table1", "bounds-table1-mind")
        for one in published(name)["claims"]
    }
    assert told <= known
    assert len(told) == 8


def test_the_table_of_planted_stages_is_that_of_its_result():
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    part = text[text.index("## What a planted weak stage shows") : text.index("## What the yardsticks reach")]
    values = {
        (one["method"], one["metric"]): f"{one['mean']:.4f}" for one in published("planted-stage")["rows"]
    }
    rows = re.findall(r"^\| ([a-z-]+) \| (0.*) \|$", part, re.MULTILINE)
    assert len(rows) == 5
    for plant, cells in rows:
        told = [
            values[f"{plant}, {wants}", f"gain, {what}"]
            for wants in ("liked", "met")
            for what in ("measured", "foretold", "best knob")
        ]
        assert cells.split(" | ") == told
