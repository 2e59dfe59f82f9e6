import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench import startup
from shortlist.lab.bench.startup import _process, bench_startup
from shortlist.lab.result import result_json


def test_the_quick_profile_measures_both_ratios(monkeypatch):
    monkeypatch.setattr(startup, "RECIPE", "last-click")  # any bundle can be loaded
    result = bench_startup(repeats=1, size="small")
    printed = result_json(result)
    assert printed["name"] == "startup"
    assert {claim.id for claim in result.claims} == {"help_over_typer", "recommend_over_torch"}
    assert printed["help_over_typer"] > 0
    assert printed["recommend_over_torch"] > 0
    times = {row.method: row.mean for row in result.rows}
    assert times["shortlist recommend"] / times["import torch"] == pytest.approx(
        printed["recommend_over_torch"]
    )
    assert times["shortlist --help"] / times["typer --help"] == pytest.approx(printed["help_over_typer"])


def test_a_command_that_fails_is_named():
    with pytest.raises(ShortlistError, match="-c import nothing_here failed with code 1"):
        _process("-c", "import nothing_here")(0)
