"""A log of one JSON object per line; what could break a line or a terminal is escaped."""

import json
import logging
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

LOGGER = logging.getLogger("shortlist.serve")


class JsonLines(logging.Formatter):
    """Formats records as lines; an exception is told by its type and places, never by its words.

    The words of an exception may quote a request, and ids of users do not belong into logs.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": _places(record.exc_info[2])}
        return json.dumps(line)  # escapes all but printable ASCII


def _places(trace: TracebackType | None) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


def log_config() -> dict[str, Any]:
    """The settings that send our log and the server's own to stderr, in lines of JSON."""
    heard = {"handlers": ["stderr"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": JsonLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {LOGGER.name: heard, "uvicorn": {**heard, "level": "WARNING"}},
    }
