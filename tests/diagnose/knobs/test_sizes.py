import pytest
import torch

from shortlist.diagnose.knobs.sizes import Size, as_expression, as_toml, sizes_of, with_sizes
from shortlist.grammar import as_pipeline, leaves
from shortlist.nominate import TreeNominator
from shortlist.pipeline import Optional, load_recommender
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


def test_sizes_are_limits_and_cuts_but_not_the_slate():
    found = [(one.stage, one.knob, one.value) for one in sizes_of(funnel(), 8, 40)]
    assert found == [("a", "limit", 20), ("b", "limit", 12), ("pre", "cut", 16), ("middle", "cut", 12)]


def test_tree_has_a_beam(tree_bundle):
    pipeline = load_recommender(tree_bundle).pipeline
    found = {one.knob: one.value for one in sizes_of(pipeline, 20, 200)}
    assert found == {"limit": 30, "beam": 15}  # two children each: eight would not reach thirty leaves
    wider = with_sizes(pipeline, {("tree", "beam"): 16})
    tree = next(one for one in leaves(wider) if isinstance(one, TreeNominator))
    assert (tree.beam, tree.limit) == (16, 30)
    assert as_toml(wider, {("tree", "beam"): 16}).splitlines() == [
        'pipeline = "tree % 30 >> seen % 20"',
        "",
        "[stages.tree]",
        "beam = 16",
    ]


def test_changed_sizes_are_in_the_expression_and_the_slate_keeps_its_size():
    changed = with_sizes(
        funnel(), {("a", "limit"): 5, ("b", "limit"): 24, ("pre", "cut"): 9, ("middle", "cut"): 8}
    )
    assert repr(changed) == "a % 5 + Optional(b % 24) >> no >> pre % 9 >> middle % 8 >> rank % 8"
    query = query_of([1, 2], [3])
    assert run_checked(changed, query).items.shape == (2, 8)


def test_no_changes_give_the_same_pipeline():
    assert repr(with_sizes(funnel(), {})) == repr(funnel())
    query = query_of([1, 2])
    assert torch.equal(run_checked(with_sizes(funnel(), {}), query).items, run_checked(funnel(), query).items)


def test_sizes_stay_within_their_range():
    size = Size("pre", "cut", 16, 10, 40)
    assert size.others() == [10, 32, 40]  # 4 and 8 are below a slate, 64 above the catalogue
    assert Size("a", "limit", 1, 1, 100).others() == [2, 4]
    assert Size("pre", "cut", 6, 10, 40).scaled(0.5) == 6  # a cut below the slate stays


@pytest.mark.parametrize(("knob", "text"), [("limit", "a % 5"), ("cut", "a % 5"), ("beam", "a beam 5")])
def test_sizes_are_written_as_in_an_expression(knob, text):
    assert as_expression("a", knob, 5) == text


def test_cut_of_a_single_pool_stays():
    pipeline = as_pipeline((listed("a", range(9), limit=6) + listed("b", range(9), limit=6)) % 5)
    assert [one.key for one in sizes_of(pipeline, 5, 9)] == [("a", "limit"), ("b", "limit")]
