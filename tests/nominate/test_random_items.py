"""Random items: equally likely, the same in every batch, with their probability in the log."""

import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ArtifactError
from shortlist.feedback.nominations import nominations
from shortlist.feedback.write.from_trace import from_trace
from shortlist.grammar import as_pipeline
from shortlist.nominate import Popular, RandomItems
from shortlist.pipeline import run
from shortlist.testing.stages import check_stage
from tests.feedback.logs import meta_of

ITEMS = 40


def nominator(limit=8):
    return RandomItems(torch.arange(ITEMS), name="random", limit=limit)


def test_stage_keeps_its_promises():
    check_stage(nominator(), n_items=ITEMS)


def test_every_item_is_as_likely_as_its_propensity_says():
    found = nominator().nominate(Query.of([[]] * 4000, seeds=list(range(4000))))
    assert found.items.shape == (4000, 8)
    assert all(len(set(row)) == 8 for row in found.items[:50].tolist())
    share = torch.bincount(found.items.flatten(), minlength=ITEMS) / 4000
    assert torch.equal(found.columns["propensity"], torch.full((4000, 8), 8 / ITEMS))
    assert (share - 8 / ITEMS).abs().max().item() < 5 * (0.2 * 0.8 / 4000) ** 0.5


def test_items_depend_on_the_seed_alone():
    stage = nominator()
    whole = stage.nominate(Query.of([[1], [2], [3]], seeds=[5, 6, 5]))
    assert torch.equal(whole.items[0], whole.items[2])
    assert not torch.equal(whole.items[0], whole.items[1])
    assert torch.equal(whole.items[1:2], stage.nominate(Query.of([[9]], seeds=[6])).items)


def test_catalogue_that_fits_is_certain():
    found = nominator(limit=100).nominate(Query.of([[]], seeds=[1]))
    assert sorted(found.items[0].tolist()) == list(range(ITEMS))
    assert found.columns["propensity"].tolist() == [[1.0] * ITEMS]


def test_log_has_the_probability_of_a_reserved_slot():
    popular = Popular(torch.arange(ITEMS), torch.linspace(1, 0.1, ITEMS), name="popular", limit=10)
    trace = run(as_pipeline(popular + nominator(limit=4)), Query.of([[]] * 3, seeds=[1, 2, 3])).trace
    record = from_trace(trace, meta_of(trace))
    found = nominations(record, np.arange(record.n_candidates))
    only = found.picked[:, 1] & ~found.picked[:, 0]
    assert only.any()
    assert found.shown[only] == pytest.approx(4 / ITEMS)
    assert (found.shown[found.picked[:, 0]] == 1).all()  # the popular ones are there whatever is drawn
    assert found.propensity[only, 1] == pytest.approx(4 / ITEMS)


def test_rows_outside_the_catalogue_are_refused():
    with pytest.raises(ArtifactError, match="items"):
        nominator().check_catalogue(10, ())
