"""Popular and Recent nominate the same list for every user."""

import math

import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConfigError
from shortlist.nominate import Popular, Recent
from shortlist.testing.stages import check_stage
from tests.worlds import query_of, run_checked

ORDER = torch.tensor([4, 2, 0, 1, 3])


def test_most_popular_items_come_first_with_their_share():
    nominated = (Popular(ORDER, torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0])) % 3).nominate(query_of([1], []))
    assert nominated.items.tolist() == [[4, 2, 0]] * 2
    assert nominated.scores[0].tolist() == pytest.approx([0.5, 0.2, 0.2])


def test_newest_items_come_first_with_decreasing_scores():
    nominated = Recent(ORDER, torch.tensor([0.0, 1.0, 3.0, 7.0, 9.0])).nominate(query_of())
    assert nominated.items.tolist() == [ORDER.tolist()]
    assert nominated.scores[0].tolist() == pytest.approx([-math.log1p(age) for age in (0, 1, 3, 7, 9)])


@pytest.mark.parametrize("kind", [Popular, Recent])
def test_stages_keep_the_contract_and_are_rebuilt_from_settings_and_tensors(kind):
    stage = kind(ORDER, torch.linspace(1, 0, 5) if kind is Popular else torch.arange(5.0), name="it") % 4
    check_stage(stage, 5)
    back = kind.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    query = query_of([1], [2])
    assert torch.equal(run_checked(back, query).items, run_checked(stage, query).items)


def test_empty_catalogue_gives_no_nominations():
    nothing = torch.empty(0, dtype=torch.int64)
    assert Popular(nothing, torch.empty(0)).nominate(Query.of([[], []])).shape == (2, 0)


@pytest.mark.parametrize("days", [-1.0, math.nan])
def test_negative_days_are_refused(days):
    with pytest.raises(ConfigError, match="trending: days must be at least 0, got"):
        Popular(ORDER, torch.ones(5), days, name="trending")


@pytest.mark.parametrize("kind", [Popular, Recent])
def test_exclude_seen_fills_the_places_of_history_items(kind):
    values = torch.linspace(1, 0, 5) if kind is Popular else torch.arange(5.0)
    stage = kind(ORDER, values, exclude_seen=True)
    assert (stage % 3).nominate(query_of([2, 4], [])).items.tolist() == [[0, 1, 3], [4, 2, 0]]
    assert (stage % 5).nominate(query_of([2, 4, 2])).items[0].tolist() == [0, 1, 3, -1, -1]
    check_stage(stage % 3, 5)
