import pytest

from shortlist.errors import ConfigError
from shortlist.index.params import (
    HnswParams,
    IndexParams,
    IvfParams,
    IvfPqParams,
    ResidualParams,
    ScannParams,
)


def test_zero_parameters_are_chosen_from_the_catalogue_size():
    assert IvfParams().resolved(10_000, 64) == IvfParams(200, 25)
    assert IvfParams().resolved(300, 64) == IvfParams(7, 1)
    assert IvfParams().resolved(1, 64) == IvfParams(1, 1)
    assert IvfPqParams().resolved(10_000, 64).m == 32
    assert IvfPqParams().resolved(10_000, 7).m == 1
    assert ScannParams().resolved(300, 64).nlist == 3
    assert IndexParams().resolved(3, 4) == IndexParams()


def test_explicit_parameters_stay():
    assert IvfPqParams(nlist=9, nprobe=50, m=8).resolved(100, 16) == IvfPqParams(nlist=9, nprobe=9, m=8)


@pytest.mark.parametrize(
    ("params", "settings", "message"),
    [
        (HnswParams, {"ef": 0}, 'index "hnsw": ef must be at least 1, got 0'),
        (HnswParams, {"m": -2}, "m must be at least 2, got -2"),
        (HnswParams, {"m": 2.5}, "m must be a whole number, got 2.5"),
        (IvfPqParams, {"bits": 9}, "bits must lie between 1 and 8, got 9"),
        (ResidualParams, {"m": 0}, 'index "residual": m must be at least 1, got 0'),
        (ScannParams, {"refine": 0}, "refine must be at least 1, got 0"),
        (IvfParams, {"ef": 3}, "index \"ivf\": unknown key 'ef'; expected one of nlist, nprobe"),
        (IndexParams, {"ef": 3}, "expected one of none"),
    ],
)
def test_invalid_parameters_are_refused_by_name(params, settings, message):
    with pytest.raises(ConfigError, match=message):
        params.of(settings)


def test_invalid_parameters_are_refused_without_a_recipe():
    with pytest.raises(ConfigError, match='index "hnsw": ef must be at least 1, got 0'):
        HnswParams(ef=0)


def test_parameters_that_do_not_fit_the_catalogue_are_refused():
    with pytest.raises(
        ConfigError, match="nlist must be at most the number of items, 300, got 400; lower it"
    ):
        IvfParams(nlist=400).resolved(300, 8)
    with pytest.raises(ConfigError, match="m must divide the width 10, got 4; set 0"):
        IvfPqParams(m=4).resolved(300, 10)
