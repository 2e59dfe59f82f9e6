"""A sheet holds features, numbers and likeness, and comes back from its tensors."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.stages.sheet import Sheet
from tests.stages.sheets import sheet
from tests.worlds import N_ITEMS, asked, listed, run_checked

POOL = listed("a", [1, 2, 3]) + listed("b", [3, 4])


def test_it_holds_features_then_numbers_then_likeness():
    made, query = sheet(), asked([5, 6], [])
    field = run_checked(POOL, query).candidates
    told = made(query, field)
    assert told.shape == (2, field.shape[1], made.size)
    said, rows = made.features(query, field), field.items.clamp(min=0)
    assert torch.equal(told[..., : said.shape[-1]], said)
    assert torch.equal(told[..., -4:-2], made.columns.numbers[rows])
    assert torch.equal(told[..., -2:], made.columns.likeness(query.history, rows))


def test_it_comes_back_from_its_settings_and_tensors():
    made, query = sheet(), asked([5, 6])
    assert made.settings() == {"nominators": ["a", "b"], "columns": ["price", "kind", "genres"]}
    field = run_checked(POOL, query).candidates
    assert torch.equal(Sheet.build(made.settings(), made.tensors())(query, field), made(query, field))


def test_a_damaged_sheet_is_refused():
    with pytest.raises(ArtifactError, match="its tensors lack 'popularity'"):
        Sheet.build({}, {})


@pytest.mark.parametrize(
    "damage",
    [
        {"popularity": torch.tensor(3)},
        {"popularity": torch.ones(N_ITEMS - 1)},
        {"lately": torch.full((N_ITEMS,), torch.nan)},
        {"lately": -torch.ones(N_ITEMS)},
        {"category": torch.zeros(N_ITEMS)},
        {"category": torch.full((N_ITEMS,), -1)},
    ],
)
def test_counts_and_categories_that_no_events_have_are_refused(damage):
    made = sheet()
    with pytest.raises(ArtifactError, match="a count and a category, from 0, for every item"):
        Sheet.build(made.settings(), made.tensors() | damage)
