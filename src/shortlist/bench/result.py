"""The shape every benchmark answers in: rows, claims, and what they were measured on."""

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shortlist import __version__


def row(method: str, metric: str, values: Sequence[float]) -> dict[str, Any]:
    """One measured quantity with its spread."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = statistics.fmean(values)
    return {"method": method, "metric": metric, "mean": mean, "sd": spread, "values": list(values)}


def claim(name: str, source: str, estimate: float, limit: float) -> dict[str, Any]:
    """Whether a measured value keeps a limit; a claim that fails is reported, never removed."""
    told = f"at most {limit:g}"
    return {
        "id": name,
        "source": source,
        "holds": bool(estimate <= limit),
        "estimate": estimate,
        "note": told,
    }


def result(
    name: str,
    profile: str,
    seed: int,
    seconds: float,
    rows: list[dict[str, Any]],
    claims: list[dict[str, Any]],
) -> dict[str, Any]:
    """Everything together, with machine, commit and version; the estimates of claims stand on top as well."""
    told = {one["id"]: one["estimate"] for one in claims}
    return {
        "name": name,
        "profile": profile,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "commit": commit(),
        "package": __version__,
        "seeds": [seed],
        "seconds": seconds,
        **told,
        "rows": rows,
        "claims": claims,
    }


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
