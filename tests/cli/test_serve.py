"""The verb itself, with a stand-in for the server; `tests/serve/test_verb.py` asks it with a real artifact."""

import importlib
import json
import shlex
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from shortlist.serve.schemas import Ask

# The command line has a function of the same name, which hides the module.
verb = importlib.import_module("shortlist.cli.serve")
app = typer.Typer()
app.command()(verb.serve)

URL = "http://127.0.0.1:8000"


@pytest.fixture
def asked(monkeypatch):
    """What the server was asked to do, instead of doing it; every folder is an artifact."""
    calls = []

    def serve_app(app, host, port, announce):
        calls.append((app, host, port))
        announce(f"http://{host}:{port}")

    recommender = SimpleNamespace(about={"name": "tiny", "ends": 0})
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: recommender)
    monkeypatch.setattr(verb, "make_app", lambda recommender, seed: ("app", seed))
    monkeypatch.setattr(verb, "serve_app", serve_app)
    return calls


def ask(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_without_options_it_listens_on_this_machine_only(asked):
    assert ask("model").exit_code == 0
    assert asked == [(("app", 0), "127.0.0.1", 8000)]


def test_the_line_to_try_can_be_pasted_and_is_a_valid_request(asked):
    first, line = ask("model").stderr.splitlines()
    assert first == f"serving model at {URL}; Ctrl-C stops it. Try:"
    words = shlex.split(line)
    assert words[:-1] == ["curl", "-s", f"{URL}/v1/recommend", "-H", "Content-Type: application/json", "-d"]
    assert Ask.model_validate_json(words[-1]) == Ask(k=5, trace=True)


def test_json_tells_a_model_without_a_version_as_null(asked):
    told = json.loads(ask("model", "--json").stdout)
    assert told == {"url": URL, "model": {"name": "tiny", "version": None}}


@pytest.mark.parametrize("words", [("--port", -1), ("--port", 65536), ("--seed", -1), ()])
def test_what_cannot_be_meant_is_refused_before_anything_is_served(asked, words):
    assert ask(*(["model", *words] if words else [])).exit_code == 2
    assert asked == []


def test_the_address_is_refused_before_the_artifact_is_read(monkeypatch, asked):
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: pytest.fail("it was read"))
    answer = ask("model", "--host", "0.0.0.0")
    assert (answer.exit_code, answer.stderr.startswith("error: 0.0.0.0: others could reach")) == (2, True)


def test_a_missing_extra_is_told_before_all_else(monkeypatch, asked):
    monkeypatch.setattr(verb, "missing", "uvicorn")
    answer = ask("model", "--host", "0.0.0.0")
    assert answer.exit_code == 2
    assert answer.stderr == (
        "error: this needs the package 'uvicorn'; install it with: pip install 'shortlist[serve]'\n"
    )
    assert asked == []
