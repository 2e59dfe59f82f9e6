"""Checks that every result must pass."""

import json

from shortlist.lab.result import Result, result_json


def check_result(result: Result, name: str) -> None:
    """Finite numbers, unique rows and claims, and a source for every claim."""
    assert result.name == name
    json.dumps(result_json(result), allow_nan=False)
    rows = [(one.method, one.metric, one.x) for one in result.rows]
    assert len(set(rows)) == len(rows) > 0
    assert len(ids(result)) == len(result.claims)
    assert all(one.source and isinstance(one.holds, bool) for one in result.claims)


def points(result: Result, method: str, metric: str) -> dict[float, float]:
    """A curve of a result by x."""
    rows = [one for one in result.rows if one.method == method and one.metric == metric]
    return {one.x: one.mean for one in rows if one.x is not None}


def ids(result: Result) -> set[str]:
    return {one.id for one in result.claims}
