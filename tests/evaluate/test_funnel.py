import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConservationError
from shortlist.evaluate.funnel import Funnel, StageLoss, _balanced, funnel, passage
from shortlist.grammar import as_pipeline
from shortlist.stages import Seen
from tests.worlds import listed, run_checked


def told(truth):
    pipeline = as_pipeline(
        listed("a", [1, 2, 3, 4]) + listed("b", [4, 5]) >> Seen(name="seen") >> Seen(name="cut") % 2
    )
    trace = run_checked(pipeline, Query.of([[1], [9]])).trace
    return funnel(trace, [passage(trace, truth)])


def test_every_held_out_item_is_lost_at_one_stage_or_returned():
    # Request 0: 1 was seen, 4 (named twice, so first by rank fusion) stays, 7 is named by nobody.
    result = told(torch.tensor([[1, 4, 7], [5, -1, -1]]))
    assert result.wanted == 4
    by_name = {stage.name: stage for stage in result.stages}
    assert (by_name["pool"].entered, by_name["pool"].lost) == (4, 1)
    assert (by_name["seen"].entered, by_name["seen"].lost, by_name["seen"].removed) == (3, 1, 1)
    assert (by_name["cut"].entered, by_name["cut"].lost, by_name["cut"].removed) == (2, 1, 0)
    assert result.returned == 1
    assert result.wanted == result.returned + sum(stage.lost for stage in result.stages)


def test_nominators_are_credited_for_what_they_name_and_for_what_they_alone_name():
    result = told(torch.tensor([[1, 4, 7], [5, -1, -1]]))
    assert result.nominators == {"a": {"named": 2, "alone": 1}, "b": {"named": 2, "alone": 1}}


def test_batches_add_up():
    pipeline = as_pipeline(listed("a", [1, 2, 3]) >> Seen(name="cut") % 1)
    truth = torch.tensor([[1], [2], [9]])
    whole = run_checked(pipeline, Query.of([[0], [0], [0]])).trace
    one = funnel(whole, [passage(whole, truth)])
    parts = [run_checked(pipeline, Query.of([[0]])).trace for _ in range(3)]
    many = funnel(parts[0], [passage(part, truth[row : row + 1]) for row, part in enumerate(parts)])
    assert [(s.entered, s.survived, s.lost) for s in one.stages] == [
        (s.entered, s.survived, s.lost) for s in many.stages
    ]
    assert one.as_dict()["returned"] == 1


def test_an_account_that_does_not_balance_is_refused():
    with pytest.raises(ConservationError):
        _balanced(Funnel(3, (StageLoss("a", "scorer", 3, 2, 2, 0, 1.0, 0.0),), {}))
