"""Metrics of the funnel of an evaluation against plain counts of sets."""

import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.evaluate.funnel import batch_funnel, funnel_metrics, stage_agreements
from shortlist.evaluate.losses import batch_losses
from shortlist.feedback.write.from_trace import from_trace
from shortlist.grammar import as_pipeline
from shortlist.metrics.funnel.reveal import reveal_share, reveal_yield
from shortlist.pipeline import run
from shortlist.stages.explore import Best
from tests.feedback.logs import Ordered, funnel, meta_of
from tests.worlds import listed

CAPS = (60, 20, 9, 4)
RELEVANT = torch.stack(
    [torch.randperm(80, generator=torch.Generator().manual_seed(row))[:7] for row in range(6)]
)


@pytest.fixture(scope="module")
def traced():
    return run(funnel(*CAPS), Query.of([[]] * 6, seeds=range(6))).trace


@pytest.fixture(scope="module")
def found(traced):
    return funnel_metrics([batch_of(traced, rows) for rows in (slice(0, 6),)], slots=4)


def batch_of(trace, rows):
    return batch_funnel(trace, batch_losses(trace, RELEVANT[rows], np.arange(6)), RELEVANT[rows])


def survivors(trace, row):
    """The items after every stage, from the trace alone."""
    for step in trace.steps:
        yield set(step.after.items[row][step.after.valid[row]].tolist())


def test_recall_and_utility_are_counts_of_relevant_items(found, traced):
    sets = [list(survivors(traced, row)) for row in range(6)]
    relevant = [set(row.tolist()) for row in RELEVANT]
    for number, stage in enumerate(found.stages):
        hits = [len(sets[row][number] & relevant[row]) for row in range(6)]
        before = [len(sets[row][number - 1] & relevant[row]) if number else 7 for row in range(6)]
        assert stage.recall.mean == pytest.approx(np.mean(hits) / 7)
        assert stage.best_utility == pytest.approx(np.mean(np.minimum(hits, 4)))
        lost = np.minimum(before, 4) - np.minimum(hits, 4)
        assert stage.utility_lost.mean == pytest.approx(lost.mean())
    assert found.joint_recall == found.stages[-1].recall


def test_utility_telescopes(found):
    """Spec test 33."""
    lost = [stage.utility_lost.mean for stage in found.stages]
    assert min(lost) >= 0
    assert found.input_utility - sum(lost) == pytest.approx(found.stages[-1].best_utility, abs=1e-9)


def test_reveal_ratios_are_those_of_the_logged_requests(found, traced):
    """The same functions on the record that a log holds."""
    record = from_trace(traced, meta_of(traced))
    served = record.position > 0
    share, ratio = (one(record.channel_mask, served, 2) for one in (reveal_share, reveal_yield))
    for number, own in enumerate(found.nominators.values()):
        assert own.reveal_yield == pytest.approx(ratio.full[number])
        assert own.reveal_yield_split == pytest.approx(ratio.split[number])
        assert own.reveal_share == pytest.approx(share.full[number])
        assert own.reveal_share_split == pytest.approx(share.split[number])
    assert sum(own.reveal_share_split for own in found.nominators.values()) == pytest.approx(1)


def test_batches_add_up(found, traced):
    halves = [run(funnel(*CAPS), Query.of([[]] * 3, seeds=part)).trace for part in (range(3), range(3, 6))]
    parts = [
        batch_funnel(trace, batch_losses(trace, RELEVANT[rows], np.arange(3)), RELEVANT[rows])
        for trace, rows in zip(halves, (slice(0, 3), slice(3, 6)), strict=True)
    ]
    together = funnel_metrics(parts, slots=4)
    assert together.stages == found.stages
    assert together.nominators == found.nominators
    assert [one.requests for one in together.agreement] == [6, 6, 6]


def test_stage_that_repeats_the_order_before_it_agrees_fully():
    pool = listed("left", range(40), limit=40)
    same = as_pipeline(
        pool >> Ordered(40, 3, name="a") % 20 >> Ordered(40, 3, name="b") % 8 >> Best(k=5, name="c")
    )
    pairs = stage_agreements(run(same, Query.of([[]] * 4, seeds=range(4))).trace)
    assert list(pairs)[1:] == [("a", "b"), ("b", "c")]
    assert torch.allclose(pairs["a", "b"], torch.ones(4, 3).double())
    assert torch.equal(pairs["b", "c"][:, 0], torch.ones(4).double())


def test_agreement_is_the_share_of_the_top_that_the_next_stage_keeps(traced):
    (_, _), pair = list(stage_agreements(traced).items())[1]
    for row in range(6):
        inside, first = traced.steps[2].before, traced.scores(1)[row]
        slots = inside.slot[row][inside.valid[row]]
        top = set(slots[first[slots].argsort(descending=True, stable=True)][:9].tolist())
        after = traced.steps[2].after
        kept = set(after.slot[row][after.valid[row]].tolist())
        assert pair[row, 0].item() == pytest.approx(len(top & kept) / 9)


def test_request_without_relevant_items_has_no_recall():
    trace = run(funnel(*CAPS), Query.of([[]] * 2, seeds=range(2))).trace
    relevant = torch.tensor([[1, 2], [-1, -1]])
    found = funnel_metrics([batch_funnel(trace, batch_losses(trace, relevant, np.arange(2)), relevant)], 4)
    assert 0 <= found.joint_recall.mean <= 1
    assert found.input_utility == 1.0
