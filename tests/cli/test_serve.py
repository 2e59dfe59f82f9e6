"""`shortlist serve`: arguments and messages, with a stand-in for the server."""

import importlib
import json
import shlex
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from shortlist.artifact.store import Lineage
from shortlist.feedback.write.sampling import DEFAULT_QUOTAS, Quota, Sampling
from shortlist.feedback.write.writer import LogSettings
from shortlist.pipeline import About, save_recommender
from shortlist.serve import Limits, LiveTo, LogTo, app_of, request_examples
from shortlist.state import StateSettings
from tests.serve.small_service import recommender_of

# The command line has a function of the same name, which hides the module.
verb = importlib.import_module("shortlist.cli.serve")
app = typer.Typer()
app.command()(verb.serve)

URL = "http://127.0.0.1:8000"


@pytest.fixture
def bundle(tmp_path):
    save_recommender(recommender_of(), tmp_path / "model", Lineage())
    return tmp_path / "model"


@pytest.fixture
def calls(monkeypatch):
    """The calls of the server, which is not started."""
    calls = []

    def serve_app(app, host, port, announce):
        calls.append((app, host, port))
        announce(f"http://{host}:{port}")

    def serve_workers(make, workers, host, port, announce):
        calls.append((make, workers, host, port))
        announce(f"http://{host}:{port}")

    monkeypatch.setattr(verb, "serve_app", serve_app)
    monkeypatch.setattr(verb, "serve_workers", serve_workers)
    return calls


@pytest.fixture
def no_bundle(monkeypatch):
    """Any folder is taken for a bundle."""
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: recommender_of())
    monkeypatch.setattr(verb, "make_app", lambda recommender, *given: ("app", *given))


def serve(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_default_address_is_this_machine_only(calls, no_bundle):
    assert serve("model").exit_code == 0
    assert calls == [(("app", Limits(), 0, None, LiveTo()), "127.0.0.1", 8000)]


def test_workers_get_the_bundle_and_the_options(calls, no_bundle):
    assert serve("model", "--workers", 3, "--notice-seconds", 0, "--seed", 7).exit_code == 0
    ((make, *rest),) = calls
    assert (make.func, make.args) == (app_of, ("model", Limits(notice_seconds=0), 7, None))
    assert rest == [3, "127.0.0.1", 8000]


def test_log_and_its_settings_go_to_every_worker(calls, no_bundle):
    options = (
        "--log",
        "there",
        "--log-set",
        "rotate_seconds=5",
        "--log-set",
        "sample.1=all",
        "--log-set",
        "sample.3=7",
        "--log-set",
        "sample.filtered=0",
    )
    expected = LogTo(
        "there",
        LogSettings(rotate_seconds=5),
        Sampling({**DEFAULT_QUOTAS, 1: Quota(), 3: Quota(7)}, Quota(0)),
    )
    assert serve("model", *options).exit_code == 0
    assert serve("model", *options, "--workers", 2).exit_code == 0
    assert calls[0][0][3] == calls[1][0].args[3] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--log-set", "queue=5"), "expected the folder of a log beside it; add --log DIR"),
        (("--log", "x", "--log-set", "quue=5"), "unknown key 'quue'"),
        (("--log", "x", "--log-set", "queue=0"), "queue must be at least 1, got 0"),
        (("--log", "x", "--log-set", "score_bits=20"), "score_bits must be 16 or 32"),
        (
            ("--log", "x", "--log-set", "sample.1=-4"),
            "expected sample.S=NUMBER, sample.S=all or sample.filtered=NUMBER, got sample.1=-4",
        ),
        (("--log", "x", "--log-set", "sample.x=4"), "got sample.x=4"),
    ],
)
def test_wrong_setting_of_the_log_is_refused_before_the_bundle_is_read(calls, monkeypatch, options, message):
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: pytest.fail("it was read"))
    answer = serve("model", *options)
    assert (answer.exit_code, message in answer.stderr) == (2, True), answer.stderr
    assert calls == []


def test_folder_and_settings_of_states_go_to_the_service(calls, no_bundle):
    options = ("--state", "there", "--state-set", "storage=int8", "--state-set", "reorder_seconds=60")
    assert serve("model", *options).exit_code == 0
    assert calls[0][0][4] == LiveTo("there", StateSettings(storage="int8", reorder_seconds=60))


def test_old_events_of_a_bundle_without_times_are_warned_of(calls, no_bundle, monkeypatch, tmp_path):
    other = replace(recommender_of(), about=About(clock="order"))
    text = f"warning: the bundle's log has no times, so events in {tmp_path / 'old'} that are in its histories too"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "events").mkdir()
    assert "warning" not in serve("model", "--state", tmp_path / "old").stderr
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: other)
    assert text in " ".join(serve("model", "--state", tmp_path / "old").stderr.split())
    for options in ((), ("--state", tmp_path / "new")):
        assert "warning" not in serve("model", *options).stderr


def test_bundle_that_ends_after_now_is_warned_of(calls, no_bundle, monkeypatch):
    late = int(time.time() + 86_400) * 1000
    other = replace(recommender_of(), about=About(ends=late))
    assert "warning" not in serve("model").stderr
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: other)
    assert "warning: the bundle's log ends at 20" in serve("model").stderr
    assert "warning" not in serve("model", "--workers", 2).stderr  # which have no live users


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--state", "x", "--workers", 2), "--workers 2: processes share no live users"),
        (("--state-set", "late=drop", "--workers", 2), "use --workers 1"),
        (("--state", __file__), "--state: expected a folder, got the file"),
        (("--state-set", "storge=int8"), "unknown key 'storge'"),
        (("--state-set", "storage=int4"), "storage must be one of fp32, fp16, int8"),
    ],
)
def test_wrong_options_of_states_are_refused_before_the_bundle_is_read(calls, monkeypatch, options, message):
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: pytest.fail("it was read"))
    answer = serve("model", *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split()), answer.stderr
    assert calls == []


def test_several_workers_print_no_example_of_events(calls, no_bundle):
    assert "/v1/events" in serve("model").stderr
    assert "/v1/events" not in serve("model", "--workers", 2).stderr


def test_printed_curl_commands_are_requests_with_ids_that_exist(calls, no_bundle):
    first, *lines = serve("model").stderr.splitlines()
    assert first == f"serving model at {URL}; Ctrl-C stops it. Try:"
    examples = request_examples(recommender_of())
    for line, (path, body) in zip(lines, examples.items(), strict=True):
        *command, sent = shlex.split(line)
        assert command == ["curl", "-s", f"{URL}{path}", "-H", "Content-Type: application/json", "-d"]
        assert json.loads(sent) == body


def test_id_with_quotes_and_controls_is_printed_as_a_command_that_sends_it():
    body = {"user_id": 'it\'s \x1b[31m "ä" $HOME'}
    command = verb.curl(URL, body)
    assert command.isascii()
    assert command.isprintable()
    assert json.loads(shlex.split(command)[-1]) == body


def test_json_has_the_address_and_the_model(calls, no_bundle):
    answer = json.loads(serve("model", "--json").stdout)
    assert answer == {"url": URL, "model": {"name": "tiny", "version": ""}}


@pytest.mark.parametrize(
    "options",
    [("--port", -1), ("--port", 65536), ("--seed", -1), ("--workers", 0), ("--notice-seconds", -1), ()],
)
def test_invalid_options_are_refused_before_the_server_starts(calls, no_bundle, options):
    assert serve(*(["model", *options] if options else [])).exit_code == 2
    assert calls == []


def test_address_is_refused_before_the_bundle_is_read(monkeypatch, calls):
    monkeypatch.setattr(verb, "load_recommender", lambda bundle: pytest.fail("it was read"))
    answer = serve("model", "--host", "0.0.0.0")
    assert (answer.exit_code, answer.stderr.startswith("error: 0.0.0.0: others could reach")) == (2, True)


def test_missing_extra_is_reported_first(monkeypatch, calls):
    monkeypatch.setattr(verb, "missing", "uvicorn")
    answer = serve("model", "--host", "0.0.0.0")
    assert answer.exit_code == 2
    assert answer.stderr == (
        "error: this needs the package 'uvicorn'; install it with: pip install 'shortlist[serve]'\n"
    )
    assert calls == []


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example"])
def test_public_address_is_refused(bundle, calls, host):
    answer = serve(bundle, "--host", host)
    assert answer.exit_code == 2
    assert answer.stderr == (
        f"error: {host}: others could reach this address and there is no authentication yet; "
        "listen on 127.0.0.1, or add --insecure if you trust the network\n"
    )
    assert calls == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_address_is_accepted(bundle, calls, host):
    assert serve(bundle, "--host", host).exit_code == 0
    assert calls[0][1:] == (host, 8000)


def test_public_address_is_accepted_with_insecure(bundle, calls):
    assert serve(bundle, "--host", "0.0.0.0", "--insecure").exit_code == 0


def test_json_is_one_object_on_stdout_and_the_rest_is_on_stderr(bundle, calls):
    answer = serve(bundle, "--port", 0, "--json", "--seed", 7)
    payload = json.loads(answer.stdout)
    assert payload["url"] == "http://127.0.0.1:0"
    assert payload["model"]["name"] == "tiny"
    assert "curl" in answer.stderr
    assert calls[0][0].state.service.seed == 7


def test_stdout_is_empty_without_json(bundle, calls):
    assert serve(bundle).stdout == ""


def test_folder_that_is_no_bundle_is_refused_with_one_sentence(tmp_path, calls):
    answer = serve(tmp_path / "nothing")
    assert answer.exit_code == 2
    assert answer.stderr.startswith("error: ")
    assert len(answer.stderr.splitlines()) == 1


def test_verb_can_be_imported_without_the_extra_and_names_what_is_missing(tmp_path):
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import typer; from shortlist.cli.serve import serve; typer.run(serve)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert answer.stderr == (
        "error: this needs the package 'fastapi'; install it with: pip install 'shortlist[serve]'\n"
    )
