"""JSON-lines log; characters that could break a line or a terminal are escaped."""

import json
import logging
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

LOGGER = logging.getLogger("shortlist.serve")


class JsonLines(logging.Formatter):
    """Format records as JSON lines; an exception is logged with its type and locations, without its message.

    The message of an exception may quote a request, and user ids must not be logged.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0]:
            line |= {"error": record.exc_info[0].__name__, "at": _locations(record.exc_info[2])}
        return json.dumps(line)  # escapes all but printable ASCII


def _locations(trace: TracebackType | None) -> list[str]:
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]


def log_config() -> dict[str, Any]:
    """Logging configuration: our log and the server's as JSON lines on stderr."""
    logger = {"handlers": ["stderr"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": JsonLines}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "loggers": {LOGGER.name: logger, "uvicorn": {**logger, "level": "WARNING"}},
    }
