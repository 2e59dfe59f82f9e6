"""Sizes of sequence models on validation requests."""

import pytest

from shortlist.errors import ConfigError
from shortlist.lab.experiments.models.cells import Setup
from shortlist.lab.experiments.models.sequence_sizes import WIDTHS, cells_on, sequence_sizes
from tests.lab.experiments.results import check_result

DEMO = Setup("demo", "half-history")


def test_quick_profile_trains_every_size_of_a_log(tmp_path):
    cache = tmp_path / "cells.safetensors"
    result = sequence_sizes(None, "quick", [0], cache_file=cache, only=["demo/*"])
    check_result(result, "sequence-sizes")
    recalls = [one for one in result.rows if one.metric == "recall@20, validation"]
    assert len(recalls) == 3
    assert {one.split("/")[0] for one in result.skipped} == {"power-law"}
    lengths = {one.method: one.mean for one in result.rows if one.metric == "items of a history"}
    assert lengths["sasrec, width 8, 50 history on demo, half-history"] == 50


def test_every_width_has_long_histories_and_one_has_short_ones():
    cells = cells_on(DEMO, 0, is_quick=False)
    assert {(one.kind, one.width) for one in cells} == {
        (kind, w) for kind, own in WIDTHS.items() for w in own
    }
    assert len({str(one) for one in cells}) == len(cells) == sum(map(len, WIDTHS.values())) + len(WIDTHS)


def test_full_profile_needs_data():
    with pytest.raises(ConfigError, match="sequence-sizes: the full profile needs --data"):
        sequence_sizes(None, "full")
