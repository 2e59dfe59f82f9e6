"""shortlist serve: a bundle as an HTTP service."""

import ipaddress
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.output import echo
from shortlist.errors import ConfigError, MissingExtraError
from shortlist.pipeline import load_recommender

try:
    from shortlist.serve import make_app, serve_app
except ModuleNotFoundError as error:  # the other verbs work without the extra
    missing = error.name or "fastapi"
else:
    missing = ""

EXAMPLE = """curl -s {url}/v1/recommend -H 'Content-Type: application/json' -d '{{"k": 5, "trace": true}}'"""


@errors_to_exit_codes()
def serve(
    bundle: Annotated[Path, typer.Argument(help="A folder made by `shortlist train`.")],
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 selects a free one.")] = 8000,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Allow an address that other machines can reach; there is no authentication."
        ),
    ] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Answer requests over HTTP until stopped."""
    if missing:
        raise MissingExtraError(missing, "serve")
    _check_host(host, insecure)
    recommender = load_recommender(bundle)

    def announce(url: str) -> None:
        if json:
            about = recommender.about
            emit({"url": url, "model": {"name": about.name, "version": about.version}})
        echo(f"serving {bundle} at {url}; Ctrl-C stops it. Try:", err=True)
        echo(EXAMPLE.format(url=url), err=True)

    serve_app(make_app(recommender, seed=seed), host, port, announce)


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
