"""Run an app on a port: announce readiness, and finish accepted requests before stopping."""

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from shortlist.errors import ConfigError
from shortlist.serve.http.protocol import HttpProtocol
from shortlist.serve.log import log_config
from shortlist.serve.service import Service

TICK = 0.05  # seconds


def serve_app(app: FastAPI, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is called with the address once the service is ready."""
    with listening(host, port) as listener:
        server = Server(app, announce, log_config())
        try:
            server.run([listener])
        except SystemExit as error:
            raise ConfigError("the service did not start; the cause is in the log") from error


class Server(uvicorn.Server):
    """Uvicorn with an ordered shutdown: readiness first, then the port, then the accepted requests.

    Every response after the signal carries `Connection: close`, so that clients move to another process.
    """

    def __init__(self, app: FastAPI, announce: Callable[[str], None], logs: dict[str, Any] | None) -> None:
        self.service: Service = app.state.service
        self.announce = announce
        self.hurry = False
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                ws="none",
                lifespan="on",
                log_config=logs,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=self.service.limits.header_bytes,
                timeout_graceful_shutdown=self.service.limits.drain_seconds,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.announce(url_of(self.servers[0].sockets[0].getsockname()))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; Ctrl-C closes the port at once, a second one does not wait for requests.

        The signal is not raised again, so the exit code is 0.
        """
        self.service.drain()
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.hurry = self.hurry or sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer with `/readyz` at 503 for a while, then close the port and finish the accepted requests."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.service.limits.notice_seconds
        while not self.hurry and loop.time() < ends:
            await asyncio.sleep(TICK)
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """A bound socket; the kernel refuses connections until the server listens."""
    listener: socket.socket | None = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sets TCP_NODELAY only with the protocol given; without it, responses wait for delayed ACKs.
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port"
        ) from error
    return listener


def url_of(address: tuple[Any, ...]) -> str:
    """The URL of a bound address."""
    host, port = address[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
