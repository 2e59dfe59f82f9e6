import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.train.objectives import LADDERS, default_counts, lowest_stage, reindex, relabel
from shortlist.train.objectives.relabel import check_ladder, printed_choices

stages = st.integers(1, 6)


def slow_label(stage, y, ladder, n_stages):
    """Equation 9, case by case."""
    if stage < n_stages:
        return ladder[stage]
    return {0: ladder[n_stages], 1: ladder[n_stages + 1]}.get(y, math.nan)


@given(n_stages=stages, ladder=st.sampled_from(list(LADDERS)), seed=st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_labels_are_those_of_equation_9(n_stages, ladder, seed):
    rng, values = np.random.default_rng(seed), LADDERS[ladder](n_stages)
    reached, y = rng.integers(0, n_stages + 1, 20), rng.integers(-1, 2, 20)
    found = relabel(reached, y, values, n_stages)
    expected = [slow_label(*one, values, n_stages) for one in zip(reached, y, strict=True)]
    assert np.array_equal(found, expected, equal_nan=True)


@given(n_stages=stages, ladder=st.sampled_from(["consecutive", "high-positive", "binary"]))
def test_item_of_a_later_stage_never_has_a_lower_label(n_stages, ladder):
    """Specification 6, test 20: S1 < S2 => L1 <= L2; S = T with unknown feedback has no label."""
    values = LADDERS[ladder](n_stages)
    reached = np.repeat(np.arange(n_stages + 1), 3)
    labels = relabel(reached, np.tile([-1, 0, 1], n_stages + 1), values, n_stages)
    unknown = np.isnan(labels)
    assert unknown.sum() == 1
    assert reached[unknown].tolist() == [n_stages]
    for first in range(n_stages):
        assert np.nanmax(labels[reached == first]) <= np.nanmin(labels[reached == first + 1])


def test_ladders_of_the_paper_and_of_the_specification():
    assert LADDERS["consecutive"](4) == (0, 1, 2, 3, 4, 5)
    assert LADDERS["high-positive"](4) == (0, 1, 2, 3, 4, 6)
    assert LADDERS["low-exposed-negative"](4) == (0, 1, 2, 4, 3, 5)
    assert LADDERS["binary"](4) == (0, 0, 0, 0, 0, 1)
    assert LADDERS["consecutive"](3) == (0, 1, 2, 3, 4)


@given(n_stages=stages, dropped=st.sets(st.integers(0, 7)), ladder=st.sampled_from(list(LADDERS)))
@settings(max_examples=60, deadline=None)
def test_labels_after_an_ablation_are_consecutive_in_the_same_order(n_stages, dropped, ladder):
    """Specification 6, test 20."""
    values = LADDERS[ladder](n_stages)
    dropped = {one for one in dropped if one < len(values)}
    found = reindex(values, dropped)
    assert {place for place, value in enumerate(found) if math.isnan(value)} == dropped
    kept = [place for place in range(len(values)) if place not in dropped]
    assert not dropped or {found[one] for one in kept} == set(
        map(float, range(len({values[one] for one in kept})))
    )
    assert all((values[a] < values[b]) == (found[a] < found[b]) for a in kept for b in kept)
    check_ladder(found, n_stages)


def test_dropped_rank_negatives_of_three_stages():
    assert str(reindex((0, 1, 2, 3, 4), {2})) == "(0.0, 1.0, nan, 2.0, 3.0)"
    assert reindex((0, 1, 2, 3, 4, 6), ()) == (0, 1, 2, 3, 4, 6)
    with pytest.raises(ConfigError, match="5 labels has no entry 7"):
        reindex((0, 1, 2, 3, 4), {7})


@given(n_stages=stages, data=st.data())
def test_stage_before_leaves_no_stratum_of_the_serving_space_out(n_stages, data):
    """Specification 6, test 21: stage i gets items with S >= i - 1 in serving."""
    stage = data.draw(st.integers(1, n_stages))
    j = lowest_stage(stage, n_stages)
    assert set(default_counts(n_stages, j)) == set(range(stage - 1, n_stages + 1))


def test_choice_of_j_beyond_the_last_stage_is_refused():
    """Specification 6, test 21."""
    with pytest.raises(ConfigError, match=r"j must lie in 0\.\.4, got 5"):
        lowest_stage(4, 4, 5)
    with pytest.raises(ConfigError, match=r"j must lie in 0\.\.4, got -1"):
        lowest_stage(4, 4, -1)
    with pytest.raises(ConfigError, match=r"stage must lie in 1\.\.4, got 5"):
        lowest_stage(5, 4)
    assert [lowest_stage(stage, 4) for stage in (1, 2, 3, 4)] == [0, 1, 2, 3]
    assert lowest_stage(4, 4, 4) == 4


def test_printed_range_of_the_paper_is_clamped_to_the_last_stage():
    assert [list(printed_choices(stage, 4))[-1] for stage in (1, 2, 3, 4)] == [2, 3, 4, 4]


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ((0, 1, 2), "3 stages need 5 labels"),
        ((-1, 1, 2, 3, 4), "not negative"),
        ((0, 1, math.inf, math.inf, math.inf), "finite"),
        ((1, 0, 2, 3, 4), "may not fall"),
        ((0, 1, 2, 5, 4), "may not fall"),
    ],
)
def test_ladders_that_mean_nothing_are_refused(ladder, message):
    with pytest.raises(ConfigError, match=message):
        relabel([0], [-1], ladder, 3)


def test_stage_outside_the_funnel_is_refused():
    with pytest.raises(ConfigError, match=r"S must lie in 0\.\.3, got 0\.\.4"):
        relabel([0, 4], [-1, 1], (0, 1, 2, 3, 4), 3)
