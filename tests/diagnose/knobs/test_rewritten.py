import pytest
import torch

from shortlist.data import Query
from shortlist.diagnose.knobs.rewritten import (
    Everything,
    Open,
    Silent,
    replace_part,
    replace_stage,
    with_full_catalog,
    without_nominator,
)
from shortlist.errors import ConfigError
from shortlist.grammar import Pool, Top, as_pipeline, leaves
from shortlist.pipeline import Optional
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, RandomScorer, listed, run_checked, tiny


@pytest.mark.parametrize(
    "stage",
    [
        Silent(name="silent"),
        Everything(name="all", n_items=N_ITEMS),
        Open(name="open"),
    ],
)
def test_replacement_stages_keep_the_contract(stage):
    check_stage(stage, N_ITEMS)


def test_silent_nominator_keeps_its_columns_and_other_stages():
    changed = without_nominator(tiny(), "covisit")
    slate = run_checked(changed, Query.of([[1, 2, 3]]))
    assert bool(torch.isnan(slate.trace.nominated.columns["covisit.rank"]).all())
    assert [stage.title for stage in changed.stages] == [stage.title for stage in tiny().stages]
    assert slate.candidates.valid.any()


def test_stage_is_replaced_inside_cuts_and_guards():
    pipeline = as_pipeline(
        listed("a", [1, 2]) >> Optional(RandomScorer(name="rank", salt=1) % 1, name="kept")
    )
    changed = replace_stage(pipeline, "rank", lambda stage: stage.renewed(salt=9))
    assert [leaf.salt for leaf in leaves(changed) if leaf.title == "rank"] == [9]
    assert changed.stages[1].title == "kept"


def test_part_of_a_cut_pool_is_replaced():
    pipeline = as_pipeline(Pool((listed("a", [1]), listed("b", [2]))) % 5)
    changed = replace_part(pipeline, "b", lambda part: Silent(name=part.title))
    assert isinstance(changed.stages[0], Top)
    assert run_checked(changed, Query.of([[0]])).items.tolist() == [[1]]


def test_unknown_stage_is_refused():
    with pytest.raises(ConfigError, match="'unknown'"):
        replace_stage(tiny(), "unknown", lambda stage: stage)


def test_full_catalog_keeps_the_columns_of_nominators():
    pipeline = as_pipeline(
        Pool((listed("a", [5, 2]), listed("everything", [7]))) % 1 >> RandomScorer(name="rank") % 4
    )
    wide = run_checked(with_full_catalog(pipeline, N_ITEMS), Query.of([[0]])).trace
    pool = wide.nominated
    assert sorted(pool.items[0][pool.valid[0]].tolist()) == list(range(N_ITEMS))
    place = {int(item): at for at, item in enumerate(pool.items[0]) if bool(pool.valid[0, at])}
    assert pool.columns["a.rank"][0, place[5]] == 0
    assert torch.isnan(pool.columns["a.rank"][0, place[3]])
    assert int(wide.steps[0].kept[0]) == N_ITEMS
