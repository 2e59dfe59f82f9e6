"""shortlist serve: a bundle as an HTTP service."""

import ipaddress
import shlex
import time
from collections.abc import Sequence
from functools import partial
from json import dumps as to_json
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.cli.console.frame import Bundle, Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.console.log_options import LogFolder, LogSet, log_to
from shortlist.cli.console.output import echo
from shortlist.errors import ConfigError, MissingExtraError
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.live.rejections import bundle_warnings
from shortlist.pipeline.recipe_settings import parse_settings
from shortlist.settings import check_settings, settings_of
from shortlist.state import StateSettings

try:
    from shortlist.serve import Limits, LiveTo, app_of, make_app, request_examples, serve_app, serve_workers
except ModuleNotFoundError as error:  # the other verbs work without the extra
    missing = error.name or "fastapi"
else:
    missing = ""

STATE_KEYS = ", ".join(one.name for one in settings_of(StateSettings))


@errors_to_exit_codes()
def serve(
    bundle: Bundle,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 selects a free one.")] = 8000,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Allow an address that other machines can reach; there is no authentication."
        ),
    ] = False,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes that answer on the port.")] = 1,
    notice_seconds: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds after SIGTERM in which /readyz answers 503 before the port is closed."
        ),
    ] = 2.0,
    log: LogFolder = None,
    log_set: LogSet = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Keep the events of live users in this folder; without it they end with the service."
        ),
    ] = None,
    state_set: Annotated[
        list[str] | None,
        typer.Option(
            "--state-set",
            metavar="KEY=VALUE",
            help=f"Change a setting of the states: {STATE_KEYS}; repeatable.",
        ),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Answer requests over HTTP until stopped; events of users change the answers at once."""
    if missing:
        raise MissingExtraError(missing, "serve")
    _check_host(host, insecure)
    to = log_to(log, log_set)
    live = LiveTo(None if state is None else str(state), state_settings(state_set or []))
    if workers > 1 and (state is not None or state_set):
        raise ConfigError(
            f"--workers {workers}: processes share no live users, so --state and --state-set need one; use --workers 1"
        )
    if state is not None and state.exists() and not state.is_dir():
        raise ConfigError(f"--state: expected a folder, got the file {state}; choose another path")
    recommender = load_recommender(bundle)
    for text in live_warnings(recommender, state) if workers == 1 else ():
        echo(f"warning: {text}", err=True)

    def announce(url: str) -> None:
        if json:
            about = recommender.about
            emit({"url": url, "model": {"name": about.name, "version": about.version}})
        echo(f"serving {bundle} at {url}; Ctrl-C stops it. Try:", err=True)
        for path, body in request_examples(recommender).items():
            if path == "/v1/events" and workers > 1:
                continue  # processes share no live users
            echo(curl(f"{url}{path}", body), err=True)

    limits = Limits(notice_seconds=notice_seconds)
    if workers == 1:
        serve_app(make_app(recommender, limits, seed, to, live), host, port, announce)
    else:
        serve_workers(partial(app_of, str(bundle), limits, seed, to), workers, host, port, announce)


def curl(url: str, body: dict[str, Any]) -> str:
    """The command line that sends this body."""
    return f"curl -s {url} -H 'Content-Type: application/json' -d {shlex.quote(to_json(body))}"


def live_warnings(recommender: Recommender, state: Path | None) -> list[str]:
    """What of the bundle makes live events wrong or useless."""
    found = bundle_warnings(recommender, time.time_ns() // 1_000_000)
    if recommender.about.clock == "order" and state is not None and state.is_dir() and any(state.iterdir()):
        found.append(
            f"the bundle's log has no times, so events in {state} that are in its histories too count twice; "
            "if the bundle was trained or refreshed after them, trim the log first (shortlist log live --trim)"
        )
    return found


def state_settings(texts: Sequence[str]) -> StateSettings:
    """The settings of states from `KEY=VALUE`."""
    given = parse_settings(texts)
    check_settings(given, settings_of(StateSettings), "--state-set")
    return StateSettings(**given)


def _check_host(host: str, insecure: bool) -> None:
    if not insecure and not _is_loopback(host):
        raise ConfigError(
            f"{host}: others could reach this address and there is no authentication yet; "
            "listen on 127.0.0.1, or add --insecure if you trust the network"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
