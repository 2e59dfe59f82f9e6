import pytest
from typer.testing import CliRunner

from shortlist import __version__
from shortlist.cli import VERBS, app


def test_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == __version__


def test_every_verb_takes_json_and_seed():
    verbs = [(verb,) for verb in VERBS if verb not in ("data", "log", "recipe", "settings")]
    subcommands = [
        ("data", "prepare"),
        ("data", "report"),
        *(("log", name) for name in ("inspect", "join", "export")),
    ]
    for verb in (*verbs, *subcommands):
        shown = CliRunner().invoke(app, [*verb, "--help"], terminal_width=200, env={"COLUMNS": "200"}).output
        assert "--json" in shown, verb
        assert "--seed" in shown, verb


def test_unknown_verb_is_refused_with_exit_code_2():
    answer = CliRunner().invoke(app, ["recomend"])
    assert answer.exit_code == 2
    assert "Did you mean 'recommend'?" in answer.stderr


def test_ctrl_c_while_a_verb_is_imported_has_the_same_message_and_exit_code(monkeypatch):
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shortlist.cli.import_module", interrupted)
    answer = CliRunner().invoke(app, ["evaluate", "bundle"])
    assert (answer.exit_code, answer.stderr) == (130, "stopped; no partial file was left\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-k", "0"), "expected 1 or more, got 0"),
        (("-k", "1001"), "expected 1000 or less, got 1001"),
        (("-k", "many"), "expected a whole number, got many"),
        (("--seed", "-1"), "expected 0 or more, got -1"),
    ],
)
def test_value_out_of_range_is_refused_with_what_was_expected(options, message):
    answer = CliRunner().invoke(app, ["recommend", "bundle", *options], env={"COLUMNS": "200"})
    assert answer.exit_code == 2
    assert message in answer.stderr
