"""Co-visits: sums over what others met together with what you met."""

from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.nominate import CoVisit
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, asked, covisit, run_checked

# Item 0 is like 1 (0.5) and 2 (0.25); 1 is like 2 (0.5); 2 is like nothing.
HAND = CoVisit(
    torch.tensor([[1, 2], [2, -1], [-1, -1]]),
    torch.tensor([[0.5, 0.25], [0.5, 0.0], [0.0, 0.0]]),
    history_decay=0.5,
)


def slow(stage, history):
    """Item -> sum of fade ** age * likeness, with a dictionary."""
    total = defaultdict(float)
    recent = history[-stage.last :]
    for age, item in enumerate(reversed(recent)):
        for other, likeness in zip(
            stage.neighbour[item].tolist(), stage.likeness[item].tolist(), strict=True
        ):
            if other >= 0:
                total[other] += stage.history_decay**age * likeness
    return {item: score for item, score in total.items() if score > 0}


def test_a_hand_worked_sum():
    named = HAND.nominate(asked([0, 1], [2], []))
    assert named.items[0].tolist() == [2, 1, -1]
    assert named.scores[0, :2].tolist() == pytest.approx([0.5 + 0.5 * 0.25, 0.5 * 0.5])
    assert named.valid[1:].tolist() == [[False] * 3] * 2, "nothing is like 2, and a stranger met nothing"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=12), min_size=1, max_size=4), st.integers(1, 8)
)
def test_the_sums_equal_a_dictionary(histories, last):
    stage = covisit(3).renewed(last=last, limit=N_ITEMS)
    named = stage.nominate(asked(*histories))
    for row, history in enumerate(histories):
        expected = slow(stage, history)
        kept = named.valid[row]
        got = dict(zip(named.items[row][kept].tolist(), named.scores[row][kept].tolist(), strict=True))
        assert got == pytest.approx(expected, rel=1e-4)
        assert sorted(got.values(), reverse=True) == list(got.values())


def test_the_limit_keeps_the_best():
    whole, some = (covisit().renewed(limit=k).nominate(asked([1, 2, 3])) for k in (N_ITEMS, 4))
    assert some.items.tolist() == whole.items[:, :4].tolist()


def test_it_keeps_the_contract_and_comes_back_from_settings_and_tensors():
    stage = covisit()
    check_stage(stage, N_ITEMS)
    back = CoVisit.build(stage.settings(), stage.tensors())
    query = asked([1, 2], [])
    assert torch.equal(run_checked(back, query).scores, run_checked(stage, query).scores)


@pytest.mark.parametrize(
    "settings_",
    [{"last": 0}, {"history_decay": 0.0}, {"history_decay": 1.5}, {"history_decay": float("nan")}],
)
def test_settings_without_meaning_are_refused(settings_):
    with pytest.raises(ConfigError, match="expected last >= 1 and 0 < history_decay <= 1"):
        HAND.renewed(**settings_)
