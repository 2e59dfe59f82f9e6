"""`shortlist serve`: an artifact behind HTTP."""

import ipaddress
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, doors, emit
from shortlist.errors import ConfigError, MissingExtraError
from shortlist.pipeline import load_recommender

try:
    from shortlist.serve import make_app, serve_app
except ModuleNotFoundError as error:  # the other verbs work without the extra
    missing = error.name or "fastapi"
else:
    missing = ""

EXAMPLE = """curl -s {url}/v1/recommend -H 'Content-Type: application/json' -d '{{"k": 5, "trace": true}}'"""


@doors()
def serve(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine, without any key.")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Answer requests over HTTP until told to stop."""
    if missing:
        raise MissingExtraError(missing, "serve")
    _check_host(host, insecure)
    recommender = load_recommender(bundle)

    def announce(url: str) -> None:
        if json:
            emit({"url": url, "model": {name: recommender.about.get(name) for name in ("name", "version")}})
        typer.echo(f"serving {bundle} at {url}; Ctrl-C stops it. Try:\n{EXAMPLE.format(url=url)}", err=True)

    serve_app(make_app(recommender, seed=seed), host, port, announce)


def _check_host(host: str, insecure: bool) -> None:
    if not insecure and not _is_loopback(host):
        raise ConfigError(
            f"{host}: others could reach this address and there are no keys yet; "
            "listen on 127.0.0.1, or add --insecure if the network is yours"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
