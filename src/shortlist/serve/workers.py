"""Several processes on one port; the mapped weights of the bundle are in memory once."""

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType

from fastapi import FastAPI

from shortlist.errors import ShortlistError
from shortlist.serve.log import log_config
from shortlist.serve.metrics import SHARED_FOLDER
from shortlist.serve.server import Server, listening, url_of

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def serve_workers(
    make: Callable[[], FastAPI], workers: int, host: str, port: int, announce: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT with `workers` processes, each with an app of its own.

    `make` must be a function that another process can import. Readiness ends in all processes at once; each finishes
    its accepted requests. A process that ends by itself ends the service with an error.
    """
    with listening(host, port) as listener, _shared_metrics(), _forwarded() as processes:
        pipes = [_start(make, listener, processes) for _ in range(workers)]
        if all(_is_ready(pipe) for pipe in pipes):
            announce(url_of(listener.getsockname()))
        listener.close()
        ended = _join(processes)
    if ended:
        raise ShortlistError(f"a worker ended with exit code {ended}; the cause is in the log")


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """A folder in which the processes count together; they read its name when they start."""
    with tempfile.TemporaryDirectory(prefix="shortlist-metrics-") as folder:
        os.environ[SHARED_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[SHARED_FOLDER]


@contextmanager
def _forwarded() -> Iterator[list[BaseProcess]]:
    """A list of processes that get SIGTERM when this one is to stop, and at the end of the block."""
    processes: list[BaseProcess] = []

    def stop(*_: int | FrameType | None) -> None:
        # Never SIGINT: a terminal has sent it to them already, and a second one does not wait for requests.
        for process in processes:
            process.terminate()

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield processes
    finally:
        stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(make: Callable[[], FastAPI], listener: socket.socket, processes: list[BaseProcess]) -> Connection:
    """Start one process; the pipe gets a message when it is ready."""
    # Not a fork: threads of the arithmetic libraries do not survive one.
    spawn = multiprocessing.get_context("spawn")
    pipe, other = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_work, args=(make, listener, other), daemon=True)
    process.start()
    other.close()
    processes.append(process)
    return pipe


def _work(make: Callable[[], FastAPI], listener: socket.socket, ready: Connection) -> None:
    """The main function of one process."""
    for number in SIGNALS:  # before and after the server handles them
        signal.signal(number, lambda *_: sys.exit(0))
    Thread(target=_follow_parent, daemon=True).start()
    server = Server(make(), lambda _: ready.send(True), log_config())
    with listener:
        server.run([listener])


def _follow_parent() -> None:
    """Stop when the parent is gone: it could not forward a signal any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _is_ready(pipe: Connection) -> bool:
    try:
        return bool(pipe.recv())
    except EOFError:  # the process has ended
        return False


def _join(processes: Sequence[BaseProcess]) -> int:
    """The first exit code of an error; when one process ends, the others are stopped.

    SIGTERM is no error: a second one may arrive while a process that was stopped already exits.
    """
    ended = 0
    running = {process.sentinel: process for process in processes}
    while running:
        for sentinel in wait(list(running)):
            assert isinstance(sentinel, int)
            process = running.pop(sentinel)
            process.join()
            code = process.exitcode or 0
            ended = ended or (0 if code == -signal.SIGTERM else code)
        for process in running.values():
            process.terminate()
    return ended
