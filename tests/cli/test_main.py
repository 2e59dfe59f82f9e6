from typer.testing import CliRunner

from shortlist import __version__
from shortlist.cli import app

VERBS = ("quickstart", "train", "evaluate", "recommend", "explain", "serve", "bench", "reproduce")


def test_the_version_is_told():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


def test_every_verb_takes_json_and_seed():
    for verb in (*((verb,) for verb in VERBS), ("data", "prepare"), ("data", "report")):
        shown = CliRunner().invoke(app, [*verb, "--help"], terminal_width=200, env={"COLUMNS": "200"}).output
        assert "--json" in shown, verb
        assert "--seed" in shown, verb


def test_a_verb_nobody_knows_is_refused_with_code_2():
    assert CliRunner().invoke(app, ["recomend"]).exit_code == 2
