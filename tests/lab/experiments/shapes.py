"""What every result must look like."""

import json
from typing import Any


def check_shape(told: dict[str, Any], name: str) -> None:
    """Plain numbers, unique rows and claims, one value per seed."""
    assert told["name"] == name
    json.dumps(told, allow_nan=False)
    rows = [(one["method"], one["metric"], one.get("x")) for one in told["rows"]]
    assert len(set(rows)) == len(rows) > 0
    claims = [one["id"] for one in told["claims"]]
    assert len(set(claims)) == len(claims)
    assert all(one["source"] and isinstance(one["holds"], bool) for one in told["claims"])


def points(told: dict[str, Any], method: str, metric: str) -> dict[float, float]:
    """A curve of a result by x."""
    return {
        one["x"]: one["mean"]
        for one in told["rows"]
        if one["method"] == method and one["metric"] == metric and "x" in one
    }


def ids(told: dict[str, Any]) -> set[str]:
    return {one["id"] for one in told["claims"]}
