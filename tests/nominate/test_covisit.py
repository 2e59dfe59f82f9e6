"""Co-visitation scores equal hand-worked sums of similarities."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.nominate import CoVisit
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, covisit, query_of, run_checked

# Item 0 is similar to 1 (0.5) and 2 (0.25); 1 is similar to 2 (0.5); 2 has no similar item.
HAND = CoVisit(
    torch.tensor([[1, 2], [2, -1], [-1, -1]]),
    torch.tensor([[0.5, 0.25], [0.5, 0.0], [0.0, 0.0]]),
    history_decay=0.5,
)


def slow(stage, history):
    """Item -> sum of history_decay ** age * likeness, with a dictionary."""
    total = defaultdict(float)
    recent = history[-stage.last :]
    for age, item in enumerate(reversed(recent)):
        for other, likeness in zip(
            stage.neighbour[item].tolist(), stage.likeness[item].tolist(), strict=True
        ):
            if other >= 0:
                total[other] += stage.history_decay**age * likeness
    return {item: score for item, score in total.items() if score > 0}


def test_scores_of_a_case_worked_out_by_hand():
    nominated = HAND.nominate(query_of([0, 1], [2], []))
    assert nominated.items[0].tolist() == [2, 1, -1]
    assert nominated.scores[0, :2].tolist() == pytest.approx([0.5 + 0.5 * 0.25, 0.5 * 0.5])
    assert nominated.valid[1:].tolist() == [[False] * 3] * 2, "nothing is similar to 2"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=12), min_size=1, max_size=4), st.integers(1, 8)
)
def test_scores_equal_a_dictionary_of_sums(histories, last):
    stage = covisit(3).renewed(last=last, limit=N_ITEMS)
    nominated = stage.nominate(query_of(*histories))
    for row, history in enumerate(histories):
        expected = slow(stage, history)
        kept = nominated.valid[row]
        got = dict(
            zip(nominated.items[row][kept].tolist(), nominated.scores[row][kept].tolist(), strict=True)
        )
        assert got == pytest.approx(expected, rel=1e-4)
        assert sorted(got.values(), reverse=True) == list(got.values())


def test_limit_keeps_the_best():
    whole, some = (covisit().renewed(limit=k).nominate(query_of([1, 2, 3])) for k in (N_ITEMS, 4))
    assert some.items.tolist() == whole.items[:, :4].tolist()


def test_stage_keeps_the_contract_and_is_rebuilt_from_settings_and_tensors():
    stage = covisit()
    check_stage(stage, N_ITEMS)
    back = CoVisit.build(stage.settings(), stage.tensors())
    query = query_of([1, 2], [])
    assert torch.equal(run_checked(back, query).scores, run_checked(stage, query).scores)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"last": 0}, "covisit: last must be at least 1, got 0"),
        ({"history_decay": 0.0}, "history_decay must lie between 1e-09 and 1, got 0.0"),
        ({"history_decay": 1.5}, "history_decay must lie between 1e-09 and 1, got 1.5"),
        ({"history_decay": float("nan")}, "history_decay must lie between 1e-09 and 1, got nan"),
    ],
)
def test_settings_outside_their_range_are_refused(settings_, message):
    with pytest.raises(ConfigError, match=message):
        HAND.renewed(**settings_)


def test_exclude_seen_leaves_out_the_history():
    nominated = HAND.renewed(exclude_seen=True).nominate(query_of([0, 1], [0]))
    assert nominated.items.tolist() == [[2, -1, -1], [1, 2, -1]]
    check_stage(HAND.renewed(exclude_seen=True), 3)
