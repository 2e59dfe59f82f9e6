"""A sheet holds features, numbers and likeness, and comes back from its tensors."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.stages.sheet import Sheet
from tests.stages.sheets import sheet
from tests.worlds import asked, listed, run_checked

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
