import importlib
import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from shortlist.artifact.store import Lineage
from shortlist.pipeline import save_recommender

from .tiny import recommender_of

# The command line has a function of the same name, which hides the module.
verb = importlib.import_module("shortlist.cli.serve")
app = typer.Typer()
app.command()(verb.serve)


@pytest.fixture
def bundle(tmp_path):
    save_recommender(recommender_of(), tmp_path / "model", Lineage())
    return tmp_path / "model"


@pytest.fixture
def asked(monkeypatch):
    """What the server was asked to do, instead of doing it."""
    calls = []

    def serve_app(app, host, port, announce):
        calls.append((app, host, port))
        announce(f"http://{host}:{port}")

    monkeypatch.setattr(verb, "serve_app", serve_app)
    return calls


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example"])
def test_an_address_others_can_reach_is_refused(bundle, asked, host):
    answer = CliRunner().invoke(app, [str(bundle), "--host", host])
    assert answer.exit_code == 2
    assert answer.stderr == (
        f"error: {host}: others could reach this address and there are no keys yet; "
        "listen on 127.0.0.1, or add --insecure if the network is yours\n"
    )
    assert asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_is_welcome(bundle, asked, host):
    assert CliRunner().invoke(app, [str(bundle), "--host", host]).exit_code == 0
    assert asked[0][1:] == (host, 8000)


def test_insecure_is_a_word_one_has_to_say(bundle, asked):
    assert CliRunner().invoke(app, [str(bundle), "--host", "0.0.0.0", "--insecure"]).exit_code == 0


def test_json_is_one_object_on_stdout_and_the_rest_goes_to_stderr(bundle, asked):
    answer = CliRunner().invoke(app, [str(bundle), "--port", "0", "--json", "--seed", "7"])
    told = json.loads(answer.stdout)
    assert told["url"] == "http://127.0.0.1:0"
    assert told["model"]["name"] == "tiny"
    assert "curl" in answer.stderr
    assert asked[0][0].state.service.seed == 7


def test_without_json_stdout_stays_empty(bundle, asked):
    assert CliRunner().invoke(app, [str(bundle)]).stdout == ""


def test_what_is_no_artifact_is_told_in_a_sentence(tmp_path, asked):
    answer = CliRunner().invoke(app, [str(tmp_path / "nothing")])
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: ")
    assert len(answer.stderr.splitlines()) == 1


def test_the_verb_can_be_imported_without_the_extra_and_says_what_is_missing(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import typer; from shortlist.cli.serve import serve; typer.run(serve)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert (
        answer.stderr
        == "error: this needs the package 'fastapi'; install it with: pip install 'shortlist[serve]'\n"
    )
