"""Results as data: rows, claims, the settings and training of every system, and where they were measured."""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import torch

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.errors import DataError
from shortlist.lab.processor import Processor, processor, processor_name
from shortlist.pipeline.about import RetrievedTargets, TrainingHistory

REQUIRED = (
    "name",
    "profile",
    "machine",
    "commit",
    "dirty",
    "package",
    "seeds",
    "seconds",
)  # written even if empty


@dataclass(frozen=True)
class Row:
    """One measured quantity with a value per seed; `x` is its position on the axis of a drawing."""

    method: str
    metric: str
    mean: float
    sd: float
    values: tuple[float, ...]
    x: float | None = None
    knob: float | None = None  # value of the knob that was changed, where `x` is something else


@dataclass(frozen=True)
class Claim:
    """What should hold and whether it did; a claim that fails is reported, never removed."""

    id: str
    source: str
    holds: bool
    estimate: float
    note: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Difference:
    """A metric of one system minus that of another on the same users or seeds, with its interval."""

    where: str  # data set and protocol
    one: str
    other: str
    metric: str
    estimate: float
    low: float
    high: float
    users: int  # of a bootstrap; 0 = a t-test over seeds


@dataclass(frozen=True)
class Result:
    """One experiment or benchmark.

    `dirty` is None, and `settings` and `training` are empty, in results that were written before 0.2.0.
    """

    name: str
    profile: str
    machine: str
    commit: str  # empty outside a git checkout
    dirty: bool | None  # whether the checkout had uncommitted changes; None: unknown
    package: str
    seeds: tuple[int, ...]
    seconds: float
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by trained system
    training: Mapping[str, TrainingHistory] = field(default_factory=dict)  # by system and seed
    x: str | None = None  # label of the axis of a drawing
    path: bool = False  # whether points are joined in the order of rows, not of x
    drawings: Mapping[str, str] = field(
        default_factory=dict
    )  # metrics with a drawing each, and the labels of their x; empty: the first metric
    note: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)  # what could not be measured, and why
    protocol: Mapping[str, Any] = field(default_factory=dict)  # of the split
    paper: Mapping[str, float] = field(default_factory=dict)  # published figures, by method
    bounds: Mapping[str, Any] = field(default_factory=dict)  # a table of bounds
    ratios: Mapping[str, Any] = field(default_factory=dict)  # of the times of two implementations
    figures: Mapping[str, float] = field(default_factory=dict)  # the figures of a benchmark, by name
    processor: Processor | None = None  # None in results that were written before 0.4.0
    differences: tuple[Difference, ...] = ()  # of pairs of systems
    tests: Mapping[str, Any] = field(
        default_factory=dict
    )  # t-tests over seeds, by pair of systems and column


@dataclass(frozen=True)
class Start:
    """When a measurement began, on which commit: a commit made meanwhile is not what was measured."""

    seconds: float
    commit: str
    dirty: bool | None


def start() -> Start:
    """The start of a measurement, now."""
    return Start(time.perf_counter(), commit(), has_changes())


def row(
    method: str, metric: str, values: Sequence[float], x: float | None = None, knob: float | None = None
) -> Row:
    """A row with the mean and the standard deviation of its values."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return Row(method, metric, statistics.fmean(values), spread, tuple(values), x, knob)


def claim(
    name: str, source: str, holds: bool, estimate: float, note: str, interval: Sequence[float] | None = None
) -> Claim:
    """A claim in plain Python types; `interval` has a low and a high end."""
    ends = None if interval is None else (float(interval[0]), float(interval[1]))
    return Claim(name, source, bool(holds), float(estimate), note, ends)


def at_most(name: str, source: str, estimate: float, limit: float) -> Claim:
    """The claim that a value does not exceed a limit."""
    return claim(name, source, estimate <= limit, estimate, f"at most {limit:g}")


def at_least(name: str, source: str, estimate: float, limit: float) -> Claim:
    """The claim that a value reaches a limit."""
    return claim(name, source, estimate >= limit, estimate, f"at least {limit:g}")


def result(
    name: str,
    profile: str,
    seeds: Sequence[int],
    began: Start,
    rows: Sequence[Row],
    claims: Sequence[Claim],
    **more: Any,
) -> Result:
    """A result with machine, commit, version and seconds since `began`; `more` are other fields of `Result`."""
    return Result(
        name,
        profile,
        machine(),
        began.commit,
        began.dirty,
        __version__,
        tuple(seeds),
        time.perf_counter() - began.seconds,
        tuple(rows),
        tuple(claims),
        processor=processor(),
        **more,
    )


def result_json(result: Result) -> dict[str, Any]:
    """A result as a JSON object: absent fields are left out, and `figures` are at its top level."""
    plain: dict[str, Any] = {}
    for one in fields(result):
        value = getattr(result, one.name)
        if one.name in ("rows", "claims"):
            plain[one.name] = [_without_none(part) for part in value]
        elif one.name == "training":
            histories = {name: _without_none(part, "", {}) for name, part in value.items()}
            plain |= {"training": histories} if histories else {}
        elif one.name == "figures":
            plain |= value
        elif value or one.name in REQUIRED:
            plain[one.name] = value
    written: dict[str, Any] = as_json(plain)
    return written


def _without_none(value: Any, *empty: object) -> dict[str, Any]:
    """The fields of a dataclass that are neither None nor one of `empty`."""
    assert is_dataclass(value)
    every = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: one for name, one in every.items() if one is not None and one not in empty}


def read_result(path: Path) -> Result:
    """A result from its JSON file; fields that older versions did not write are None or empty."""
    try:
        data = json.loads(path.read_text("utf-8"))
        rows = tuple(Row(**{**one, "values": tuple(one["values"])}) for one in data.pop("rows"))
        claims = tuple(Claim(**{**one, "interval": _pair(one.get("interval"))}) for one in data.pop("claims"))
        training = {name: read_history(one) for name, one in data.pop("training", {}).items()}
        data |= {"dirty": data.get("dirty"), "seeds": tuple(data["seeds"])}
        data["processor"] = Processor(**data["processor"]) if "processor" in data else None
        data["differences"] = tuple(Difference(**one) for one in data.get("differences", ()))
        return Result(**data, rows=rows, claims=claims, training=training)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: expected a result of `shortlist reproduce`, got {error!r}") from error


def read_history(plain: Mapping[str, Any]) -> TrainingHistory:
    """A training history from its JSON object."""
    values: dict[str, Any] = {
        name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()
    }
    if values.get("retrieved") is not None:
        retrieved = values["retrieved"]
        values["retrieved"] = RetrievedTargets(**{**retrieved, "reasons": tuple(retrieved["reasons"])})
    return TrainingHistory(**values)


def _pair(interval: Sequence[float] | None) -> tuple[float, float] | None:
    return None if interval is None else (interval[0], interval[1])


def machine() -> str:
    """GPU, processor, cores, architecture and versions of the machine."""
    python = f"Python {platform.python_version()}, torch {torch.__version__}"
    device = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else ""
    return f"{device}{processor_name()}, {os.cpu_count()} cores, {platform.machine()}, {python}"


def commit() -> str:
    """The commit of the source tree, empty outside a git checkout."""
    return _git("rev-parse", "--short", "HEAD") or ""


def has_changes() -> bool | None:
    """Whether the source tree has uncommitted changes, None outside a git checkout."""
    status = _git("status", "--porcelain")
    return None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    try:
        run = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
    except OSError:
        return None
    return run.stdout.strip() if run.returncode == 0 else None
