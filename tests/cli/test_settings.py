import json

from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.pipeline import TYPES


def run(*arguments):
    return CliRunner().invoke(app, ["settings", *arguments], env={"COLUMNS": "160"})


def test_all_types_are_listed():
    answer = run()
    assert answer.exit_code == 0
    assert all(name in answer.stdout for name in TYPES)


def test_one_type_is_shown_with_defaults_ranges_and_meanings():
    answer = run("sasrec")
    assert answer.exit_code == 0
    for text in (
        "[stages.NAME]",
        "[stages.NAME.train]",
        "learning_rate",
        "0.001",
        "1 to 8192",
        "Width of the item",
    ):
        assert text in answer.stdout


def test_json_has_every_type_with_plain_values():
    types = {one["type"]: one for one in json.loads(run("--json").stdout)["types"]}
    assert set(types) == set(TYPES)
    width = next(one for one in types["sasrec"]["settings"] if one["name"] == "width")
    assert width["default"] == 64
    assert (width["least"], width["most"]) == (1, 8192)
    assert [one["type"] for one in json.loads(run("mf", "--json").stdout)["types"]] == ["mf"]


def test_unknown_type_is_an_error_with_similar_names():
    answer = run("gru4rek")
    assert answer.exit_code != 0
    assert "did you mean gru4rec" in answer.output
