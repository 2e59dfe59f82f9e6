"""A budget split over nominators: which candidates stay, and what is refused."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Candidates
from shortlist.data.candidates import merge
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Nominator
from shortlist.nominate import Split
from shortlist.pipeline import run
from shortlist.pipeline.guards import Optional
from shortlist.pipeline.recipe import parse_recipe, to_recipe, to_toml
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, query_of, run_checked


def pool_of(**lists):
    """The pool of nominators with these lists of one request."""
    found = [
        Candidates.of(torch.tensor([one]), -torch.arange(len(one)).float()[None]) for one in lists.values()
    ]
    return merge(found, list(lists))


def kept(stage, found, *history):
    """The items that stay for a request with this history."""
    after = stage(query_of(history), found)
    return after.items[after.valid].tolist()


def test_limits_decide_how_many_of_each_list_stay():
    found = pool_of(left=[1, 2, 3, 4], right=[11, 12, 13, 14])
    split = Split(nominators=("left", "right"), limits=((3, 1),), k=4)
    assert sorted(kept(split, found)) == [1, 2, 3, 11]


def test_segment_of_the_history_decides_which_limits():
    found = pool_of(left=[1, 2, 3, 4], right=[11, 12, 13, 14])
    split = Split(nominators=("left", "right"), limits=((0, 2), (2, 0), (1, 1)), history=(1, 3), k=2)
    assert sorted(kept(split, found)) == [11, 12]
    assert sorted(kept(split, found, 5)) == [1, 2]
    assert sorted(kept(split, found, 5, 6)) == [1, 2]
    assert sorted(kept(split, found, 5, 6, 7)) == [1, 11]


def test_same_items_leave_room_that_further_ones_fill():
    found = pool_of(left=[1, 2, 3, 4, 5], right=[1, 2, 13, 14, 15])
    split = Split(nominators=("left", "right"), limits=((2, 2),), k=4)
    assert sorted(kept(split, found)) == [1, 2, 3, 13]
    assert sorted(kept(split.renewed(fill=False), found)) == [1, 2]


def test_another_k_scales_all_limits():
    found = pool_of(left=list(range(9)), right=list(range(10, 19)))
    split = Split(nominators=("left", "right"), limits=((4, 2),), k=6)
    assert sorted(kept(split % 3, found)) == [0, 1, 10]
    assert sorted(kept(split % 9, found)) == [0, 1, 2, 3, 4, 5, 10, 11, 12]


def test_order_is_that_of_the_scores():
    found = pool_of(left=[1, 2, 3], right=[11, 3, 12])
    split = Split(nominators=("left", "right"), limits=((1, 3),), k=4)
    scores = found.scores[0]
    expected = sorted(kept(split, found), key=lambda item: -float(scores[found.items[0] == item].max()))
    assert kept(split, found) == expected


def test_nominator_without_a_limit_fills_last():
    found = pool_of(left=[1, 2], right=[11, 12], other=[21, 22])
    split = Split(nominators=("left", "right"), limits=((1, 0),), k=5)
    assert sorted(kept(split, found)) == [1, 2, 11, 12, 21]
    assert sorted(kept(split.renewed(fill=False), found)) == [1]


def test_nominator_that_returns_nothing_leaves_its_slots_to_others():
    found = pool_of(left=[-1, -1, -1], right=[11, 12, 13])
    split = Split(nominators=("left", "right"), limits=((2, 1),), k=3)
    assert sorted(kept(split, found)) == [11, 12, 13]


def test_nominator_taken_out_of_the_pool_leaves_its_slots_to_others():
    split = Split(nominators=("left", "right"), limits=((2, 1),), k=2)
    assert sorted(kept(split, pool_of(right=[11, 12, 13]))) == [11, 12]


def slow(lists, limits, k):
    """Read all lists at the same pace, the next place is the least deep one; the first nominator wins a tie."""
    places = [
        ((rank + 1) / limit if limit else float("inf"), owner, rank, item)
        for owner, (items, limit) in enumerate(zip(lists, limits, strict=True))
        for rank, item in enumerate(items)
    ]
    depth: dict[int, float] = {}
    for at, _, _, item in places:
        depth[item] = min(depth.get(item, float("inf")), at)
    return sorted(depth.values())[:k], depth


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 15), max_size=8, unique=True), min_size=3, max_size=3),
    st.tuples(*[st.integers(0, 4)] * 3).filter(any),
    st.integers(1, 12),
)
def test_split_keeps_the_least_deep_items(lists, limits, k):
    found = pool_of(a=lists[0] or [-1], b=lists[1] or [-1], c=lists[2] or [-1])
    chosen = kept(Split(nominators=("a", "b", "c"), limits=(limits,), k=k), found)
    depths, depth = slow(lists, limits, k)
    assert sorted(depth[item] for item in chosen) == pytest.approx(depths)
    assert len(set(chosen)) == len(chosen)


class Fixed(Nominator):
    """Nominates the same items for every request; without items it fails."""

    def nominate(self, query):
        if self.name == "broken":
            raise RuntimeError("down")
        first = {"low": 0, "high": 20}[self.name]
        items = torch.arange(first, first + self.limit).expand(len(query), -1)
        return Candidates.of(items, -items.float())


def test_pipeline_conserves_candidates_and_names_the_stage_that_cut():
    split = Split(nominators=("low", "high"), limits=((6, 2),), name="split")
    slate = run_checked(Fixed(name="low") % 10 + Fixed(name="high") % 10 >> split % 8, query_of([], [1, 2]))
    assert slate.items.shape == (2, 8)
    step = slate.trace.steps[-1]
    assert (step.name, step.kind) == ("split", "selector")
    assert sorted(slate.items[0].tolist()) == [0, 1, 2, 3, 4, 5, 20, 21]


def test_failed_nominator_leaves_its_slots_to_others():
    split = Split(nominators=("low", "broken"), limits=((2, 6),), k=8, name="split")
    slate = run(Fixed(name="low") % 10 + Optional(Fixed(name="broken") % 10) >> split, query_of([]))
    slate.trace.check()
    assert sorted(slate.items[0].tolist()) == list(range(8))


def test_stage_keeps_the_contract():
    split = Split(nominators=("left", "right"), limits=((1, 2), (3, 0)), history=(2,), k=5, name="split")
    check_stage(split, N_ITEMS, nominators=("left", "right"))


RECIPE = """
name = "own"
pipeline = "popular % 30 + repeat % 30 >> split % 20"
[stages.popular]
type = "popular"
[stages.repeat]
type = "repeat"
[stages.split]
type = "split"
nominators = ["popular", "repeat"]
history = [1]
limits = [[20, 0], [5, 15]]
"""


def test_limits_are_written_in_a_recipe():
    recipe = parse_recipe(RECIPE, "own")
    stage = Split.build({**recipe.stages["split"].settings, "name": "split"}, {})
    written = to_toml(
        to_recipe(
            Fixed(name="low") % 4 + Fixed(name="high") % 4 >> stage % 20, types={"split": Split, "f": Fixed}
        )
    )
    assert "history = [1]" in written
    assert "limits = [[20, 0], [5, 15]]" in written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nominators": ()}, "expected different names"),
        ({"nominators": ("a", "a")}, "expected different names"),
        ({"history": (5, 2)}, "ascending order"),
        ({"history": (2,)}, "expected 2 rows, one more than lengths in history, got 1"),
        ({"limits": ()}, "expected 1 rows"),
        ({"limits": ((1, 2, 3),)}, r"for a, b, at least one of them above 0, got \[1, 2, 3\]"),
        ({"limits": ((0, 0),)}, "at least one of them above 0"),
        ({"limits": ((-1, 3),)}, "numbers from 0"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        Split(**{"nominators": ("a", "b"), "limits": ((1, 2),), **changes})


def test_limits_of_nominators_that_are_not_there_are_refused():
    with pytest.raises(ArtifactError, match=r"expected nominators of the pool \(a\), got b"):
        Split(nominators=("a", "b"), limits=((1, 2),), name="split").check_catalogue(9, ["a"])
