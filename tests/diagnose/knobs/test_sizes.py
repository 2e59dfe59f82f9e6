import pytest
import torch

from shortlist.diagnose.knobs.sizes import Dial, as_toml, dials, in_words, turned
from shortlist.grammar import as_pipeline
from shortlist.nominate import TreeNominator
from shortlist.pipeline import Optional, load_recommender
from shortlist.pipeline.recipe import leaves
from tests.worlds import Last, RandomFilter, RandomNominator, RandomScorer, listed, query_of, run_checked


def funnel():
    pool = listed("a", range(30), limit=20) + Optional(RandomNominator(name="b") % 12)
    return (
        pool
        >> RandomFilter(name="no")
        >> RandomScorer(name="pre") % 16
        >> Last(name="middle") % 12
        >> RandomScorer(name="rank") % 8
    )


def test_limits_and_cuts_are_found_and_the_size_of_the_slate_is_none_of_them():
    found = [(one.stage, one.what, one.value) for one in dials(funnel(), 8, 40)]
    assert found == [("a", "limit", 20), ("b", "limit", 12), ("pre", "cut", 16), ("middle", "cut", 12)]


def test_a_tree_has_a_beam_too(tree_bundle):
    pipeline = load_recommender(tree_bundle).pipeline
    found = {one.what: one.value for one in dials(pipeline, 20, 200)}
    assert found == {"limit": 30, "beam": 15}  # two children each: eight would not reach thirty leaves
    wider = turned(pipeline, {("tree", "beam"): 16})
    tree = next(one for one in leaves(wider) if isinstance(one, TreeNominator))
    assert (tree.beam, tree.limit) == (16, 30)
    assert as_toml(wider, {("tree", "beam"): 16}).splitlines() == [
        'pipeline = "tree % 30 >> seen % 20"',
        "",
        "[stages.tree]",
        "beam = 16",
    ]


def test_turned_sizes_stand_in_the_expression_and_the_slate_keeps_its_size():
    changed = turned(
        funnel(), {("a", "limit"): 5, ("b", "limit"): 24, ("pre", "cut"): 9, ("middle", "cut"): 8}
    )
    assert repr(changed) == "a % 5 + Optional(b % 24) >> no >> pre % 9 >> middle % 8 >> rank % 8"
    query = query_of([1, 2], [3])
    assert run_checked(changed, query).items.shape == (2, 8)


def test_nothing_changed_is_the_same_pipeline():
    assert repr(turned(funnel(), {})) == repr(funnel())
    query = query_of([1, 2])
    assert torch.equal(run_checked(turned(funnel(), {}), query).items, run_checked(funnel(), query).items)


def test_sizes_stay_within_sense():
    dial = Dial("pre", "cut", 16, 10, 40)
    assert dial.others() == [10, 32, 40]  # 4 and 8 are below a slate, 64 above the catalogue
    assert Dial("a", "limit", 1, 1, 100).others() == [2, 4]
    assert Dial("pre", "cut", 6, 10, 40).scaled(0.5) == 6  # a cut below the slate stays


@pytest.mark.parametrize(("what", "said"), [("limit", "a % 5"), ("cut", "a % 5"), ("beam", "a beam 5")])
def test_a_size_is_told_as_one_writes_it(what, said):
    assert in_words(what, "a", 5) == said


def test_a_lone_pool_with_a_cut_keeps_the_cut():
    pipeline = as_pipeline((listed("a", range(9), limit=6) + listed("b", range(9), limit=6)) % 5)
    assert [one.key for one in dials(pipeline, 5, 9)] == [("a", "limit"), ("b", "limit")]
