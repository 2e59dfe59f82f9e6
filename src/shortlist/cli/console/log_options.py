"""The options of verbs that write a full-stage log."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.errors import ConfigError
from shortlist.feedback.write.request_log import LogTo, RequestLog
from shortlist.feedback.write.sampling import DEFAULT_FILTERED, DEFAULT_QUOTAS, Quota, Sampling
from shortlist.feedback.write.writer import LogSettings
from shortlist.pipeline import Recommender
from shortlist.pipeline.recipe_settings import parse_settings
from shortlist.settings import check_settings, settings_of

KEYS = ", ".join(one.name for one in settings_of(LogSettings))

LogFolder = Annotated[
    Path | None, typer.Option("--log", help="Write a full-stage log of the requests into this folder.")
]
LogSet = Annotated[
    list[str] | None,
    typer.Option(
        "--log-set",
        metavar="KEY=VALUE",
        help=f"Change a setting of the log: {KEYS}, or sample.S: how many candidates that reached stage S are kept, "
        "a number or all, or sample.filtered: how many that a filter removed; repeatable.",
    ),
]


def log_to(log: Path | None, texts: Sequence[str] | None) -> LogTo | None:
    """The log of these options, None without a folder."""
    settings, sampling = log_settings(texts, log)
    return None if log is None else LogTo(str(log), settings, sampling)


@contextmanager
def opened_log(to: LogTo | None, recommender: Recommender) -> Iterator[RequestLog | None]:
    """The log of the requests that are answered inside the block; everything is on the disk after it."""
    if to is None:
        yield None
        return
    log = RequestLog(to, recommender)
    try:
        yield log
    finally:
        log.close()


def log_settings(texts: Sequence[str] | None, log: Path | None) -> tuple[LogSettings, Sampling]:
    """The settings of a log from `KEY=VALUE`."""
    if texts and log is None:
        raise ConfigError("--log-set: expected the folder of a log beside it; add --log DIR")
    given = parse_settings(texts or [])
    quotas = {key: value for key, value in given.items() if key.startswith("sample.")}
    plain = {key: value for key, value in given.items() if key not in quotas}
    check_settings(plain, settings_of(LogSettings), "--log-set", "; or sample.S, such as sample.1=40")
    settings = LogSettings(**{one.name: plain[one.name] for one in fields(LogSettings) if one.name in plain})
    return settings, _sampling({key: _quota(key, value) for key, value in quotas.items()})


def _sampling(given: dict[str, Quota]) -> Sampling:
    filtered = given.pop("sample.filtered", DEFAULT_FILTERED)
    stages = {int(key.removeprefix("sample.")): quota for key, quota in given.items()}
    return Sampling({**DEFAULT_QUOTAS, **stages}, filtered)


def _quota(key: str, value: Any) -> Quota:
    whole = type(value) is int and value >= 0
    if not re.fullmatch(r"sample\.([0-9]{1,3}|filtered)", key) or not (whole or value == "all"):
        raise ConfigError(
            f"--log-set: expected sample.S=NUMBER, sample.S=all or sample.filtered=NUMBER, got {key}={value}"
        )
    return Quota(value if whole else None)
