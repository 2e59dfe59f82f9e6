"""The shape results come in: rows, claims, and what they were measured on."""

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shortlist import __version__


@dataclass(frozen=True)
class Start:
    """When a measurement began, and on which commit: what is committed meanwhile is not what was measured."""

    seconds: float
    commit: str


def start() -> Start:
    """Now."""
    return Start(time.perf_counter(), commit())


def row(method: str, metric: str, values: Sequence[float]) -> dict[str, Any]:
    """One measured quantity with its spread."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = statistics.fmean(values)
    return {"method": method, "metric": metric, "mean": mean, "sd": spread, "values": list(values)}


def claim(
    name: str, source: str, holds: bool, estimate: float, note: str, interval: Sequence[float] | None = None
) -> dict[str, Any]:
    """What should hold and whether it did; a claim that fails is reported, never removed."""
    told = {"id": name, "source": source, "holds": bool(holds), "estimate": estimate, "note": note}
    return told if interval is None else {**told, "interval": list(interval)}


def at_most(name: str, source: str, estimate: float, limit: float) -> dict[str, Any]:
    """The claim that a measured value keeps a limit."""
    return claim(name, source, estimate <= limit, estimate, f"at most {limit:g}")


def at_least(name: str, source: str, estimate: float, limit: float) -> dict[str, Any]:
    """The claim that a measured value reaches a limit."""
    return claim(name, source, estimate >= limit, estimate, f"at least {limit:g}")


def result(
    name: str,
    profile: str,
    seeds: Sequence[int],
    began: Start,
    rows: list[dict[str, Any]],
    claims: list[dict[str, Any]],
) -> dict[str, Any]:
    """Everything together, with machine, commit and version."""
    return {
        "name": name,
        "profile": profile,
        "machine": machine(),
        "commit": began.commit,
        "package": __version__,
        "seeds": list(seeds),
        "seconds": time.perf_counter() - began.seconds,
        "rows": rows,
        "claims": claims,
    }


def machine() -> str:
    """What it was measured on."""
    python = f"Python {platform.python_version()}, torch {torch.__version__}"
    device = f"{torch.cuda.get_device_name()}, " if torch.cuda.is_available() else ""
    return f"{device}{os.cpu_count()} cores, {platform.machine()}, {python}"


def commit() -> str:
    """The commit of the source tree, empty when it is not a git checkout."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
    except OSError:
        return ""
    return asked.stdout.strip()
