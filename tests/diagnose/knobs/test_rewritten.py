import pytest
import torch

from shortlist.data import Query
from shortlist.diagnose.knobs.rewritten import (
    Best,
    Everything,
    Open,
    Silent,
    bare,
    exchanged,
    exchanged_part,
    with_everything,
    without_nominator,
)
from shortlist.errors import ConfigError
from shortlist.grammar import Pool, Top, as_pipeline
from shortlist.pipeline import Optional
from shortlist.pipeline.recipe import leaves
from shortlist.stages import Seen
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, RandomScorer, found, listed, run_checked, tiny


@pytest.mark.parametrize(
    "stage",
    [
        Silent(name="silent"),
        Everything(name="all", n_items=N_ITEMS),
        Open(name="open"),
        Best(name="best", k=3),
    ],
)
def test_stand_ins_keep_the_contract_of_stages(stage):
    check_stage(stage, N_ITEMS)


def test_a_silent_nominator_leaves_its_columns_and_all_other_stages():
    changed = without_nominator(tiny(), "covisit")
    slate = run_checked(changed, Query.of([[1, 2, 3]]))
    assert bool(torch.isnan(slate.trace.nominated.columns["covisit.rank"]).all())
    assert [stage.title for stage in changed.stages] == [stage.title for stage in tiny().stages]
    assert slate.candidates.valid.any()


def test_a_stage_is_exchanged_inside_cuts_and_guards():
    pipeline = as_pipeline(
        listed("a", [1, 2]) >> Optional(RandomScorer(name="rank", salt=1) % 1, name="kept")
    )
    changed = exchanged(pipeline, "rank", lambda stage: stage.renewed(salt=9))
    assert [leaf.salt for leaf in leaves(changed) if leaf.title == "rank"] == [9]
    assert changed.stages[1].title == "kept"


def test_a_part_of_a_cut_pool_is_exchanged():
    pipeline = as_pipeline(Pool((listed("a", [1]), listed("b", [2]))) % 5)
    changed = exchanged_part(pipeline, "b", lambda part: Silent(name=part.title))
    assert isinstance(changed.stages[0], Top)
    assert run_checked(changed, Query.of([[0]])).items.tolist() == [[1]]


def test_a_name_that_no_stage_has_is_refused():
    with pytest.raises(ConfigError, match="'nobody'"):
        exchanged(tiny(), "nobody", lambda stage: stage)


def test_best_chooses_by_score_and_leaves_places_empty():
    slate = Best(k=3)(Query.of([[0]]), found([0.1, None, 0.7, 0.3]))
    assert slate.items[0][slate.valid[0]].tolist() == [2, 3, 0]


def test_bare_takes_all_cuts_away():
    assert bare(Top(Top(Seen(name="seen"), 3), 2)).title == "seen"
    assert isinstance(bare(Seen() % 3), Seen)


def test_everything_is_let_in_with_what_nominators_say_as_it_is():
    pipeline = as_pipeline(
        Pool((listed("a", [5, 2]), listed("everything", [7]))) % 1 >> RandomScorer(name="rank") % 4
    )
    wide = run_checked(with_everything(pipeline, N_ITEMS), Query.of([[0]])).trace
    named = wide.nominated
    assert sorted(named.items[0][named.valid[0]].tolist()) == list(range(N_ITEMS))
    place = {int(item): at for at, item in enumerate(named.items[0]) if bool(named.valid[0, at])}
    assert named.columns["a.rank"][0, place[5]] == 0
    assert torch.isnan(named.columns["a.rank"][0, place[3]])
    assert int(wide.steps[0].kept[0]) == N_ITEMS
