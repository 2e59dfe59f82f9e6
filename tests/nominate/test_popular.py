"""Popular and recent: the same list for everybody."""

import math

import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConfigError
from shortlist.nominate import Popular, Recent
from shortlist.testing.stages import check_stage
from tests.worlds import asked, run_checked

ORDER = torch.tensor([4, 2, 0, 1, 3])


def test_the_most_popular_come_first_with_their_share():
    named = (Popular(ORDER, torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0])) % 3).nominate(asked([1], []))
    assert named.items.tolist() == [[4, 2, 0]] * 2
    assert named.scores[0].tolist() == pytest.approx([0.5, 0.2, 0.2])


def test_the_newest_come_first_and_age_counts_against_them():
    named = Recent(ORDER, torch.tensor([0.0, 1.0, 3.0, 7.0, 9.0])).nominate(asked())
    assert named.items.tolist() == [ORDER.tolist()]
    assert named.scores[0].tolist() == pytest.approx([-math.log1p(age) for age in (0, 1, 3, 7, 9)])


@pytest.mark.parametrize("kind", [Popular, Recent])
def test_they_keep_the_contract_and_come_back_from_settings_and_tensors(kind):
    stage = kind(ORDER, torch.linspace(1, 0, 5) if kind is Popular else torch.arange(5.0), name="it") % 4
    check_stage(stage, 5)
    back = kind.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    query = asked([1], [2])
    assert torch.equal(run_checked(back, query).items, run_checked(stage, query).items)


def test_an_empty_catalogue_names_nothing():
    nothing = torch.empty(0, dtype=torch.int64)
    assert Popular(nothing, torch.empty(0)).nominate(Query.of([[], []])).shape == (2, 0)


@pytest.mark.parametrize("days", [-1.0, math.nan])
def test_days_are_0_or_more(days):
    with pytest.raises(ConfigError, match="popular 'trending': days must be 0 or more, got"):
        Popular(ORDER, torch.ones(5), days, name="trending")
