"""The closed loop: what is logged, what is repeated, what changes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.feedback import EVERYTHING, Quota, Sampling
from shortlist.metrics.funnel.stage_metrics import utility_lost
from shortlist.simulate.full_stage.closed_loop import LoopSettings, closed_loop, random_scores, serve
from shortlist.simulate.full_stage.closed_loop.measures import LOST, lost_utility
from shortlist.simulate.full_stage.closed_loop.round_log import FIRST_ITEM, FIRST_USER
from shortlist.train.objectives.instances import InstanceSampler


def oracle(log, state):
    return state.world.utility


def chance(log, state):
    return random_scores(state.world, state.number)


def once(log, state):
    return None if state.number else state.world.prerank


def scores_of(world, settings):
    return {1: world.utility, 2: world.prerank, 3: world.rank_scores(settings, 0), 4: world.rerank}


@pytest.fixture(scope="module")
def rounds(world, settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    return closed_loop(world, settings, {1: oracle}, folder, EVERYTHING, keep=True)


def test_the_log_read_back_is_what_was_served(rounds):
    for one in rounds:
        log, trace = one.log, one.served.trace
        assert log.user_id.tolist() == (one.served.users + FIRST_USER).tolist()
        assert log.n_out.tolist() == torch.stack([step.kept for step in trace.steps], 1).tolist()
        last = log.stage == 4
        for row, shown in enumerate(one.served.shown.tolist()):
            own = np.flatnonzero(last & (log.request == row))
            own = own[np.argsort(log.position[own])]
            assert (log.item_id[own] - FIRST_ITEM).tolist() == shown
        reached = np.bincount(log.stage, minlength=5)
        kept = [int(step.kept.sum()) for step in trace.steps]
        assert [int(reached[k:].sum()) for k in (1, 2, 3, 4)] == kept


def test_scores_in_the_log_are_those_of_the_stages(rounds):
    log, served = rounds[-1].log, rounds[-1].served
    users, items = served.users.numpy()[log.request], log.item_id - FIRST_ITEM
    for stage, scores in served.scores.items():
        known = ~np.isnan(log.scores[:, stage - 1])
        assert known.tolist() == (log.stage >= stage - 1).tolist() if stage > 1 else known.all()
        assert np.array_equal(log.scores[known, stage - 1], scores.numpy()[users[known], items[known]])


def test_every_shown_item_has_one_label_and_no_other_has_any(rounds):
    for one in rounds:
        assert ((one.log.y >= 0) == (one.log.stage == 4)).all()
        assert one.log.y[one.log.stage == 4].sum() / len(one.log) == pytest.approx(one.figures["liked"])


def test_feedback_is_drawn_from_r(rounds, world):
    shown = torch.cat(
        [world.utility[one.served.users].gather(1, one.served.shown).flatten() for one in rounds]
    )
    liked = np.concatenate([one.log.y[one.log.stage == 4] for one in rounds])
    error = float((shown * (1 - shown)).sum().sqrt())
    assert abs(liked.sum() - float(shown.sum())) < 4 * error


def test_the_same_seed_gives_the_same_rounds(world, settings, tmp_path):
    runs = [closed_loop(world, settings, {1: chance}, tmp_path / name) for name in ("a", "b")]
    assert [one.figures for one in runs[0]] == [one.figures for one in runs[1]]
    other = closed_loop(replace(world, seed=4), settings, {1: chance}, tmp_path / "c")
    assert [one.figures for one in other] != [one.figures for one in runs[0]]


def test_retrieval_by_true_utility_is_above_random(world, settings, rounds, tmp_path):
    found = closed_loop(world, settings, {1: chance}, tmp_path)
    assert rounds[-1].figures["utility"] > found[-1].figures["utility"]
    assert rounds[-1].figures["lost in retrieval"] < found[-1].figures["lost in retrieval"]


def test_a_frozen_arm_does_not_change(world, settings, tmp_path):
    found = closed_loop(world, replace(settings, rounds=3, explore=0.0), {1: once}, tmp_path, keep=True)
    shown = [one.served.shown[one.served.users.argsort()] for one in found]
    assert torch.equal(shown[0], shown[1])
    assert torch.equal(shown[1], shown[2])
    assert found[0].versions == found[2].versions
    assert [one.figures["novelty"] for one in found[1:]] == [0.0, 0.0]


@pytest.mark.parametrize("drift", ["seed", "label", "beta"])
def test_a_change_replaces_the_rank_stage_only(world, settings, tmp_path, drift):
    changed = replace(settings, drift=drift, drift_round=1)
    found = closed_loop(world, changed, {1: once}, tmp_path, keep=True)
    before, after = (one.served.scores for one in found)
    assert [before[stage] is after[stage] for stage in (1, 2, 4)] == [True] * 3
    assert not torch.equal(before[3], after[3])
    assert [new - old for old, new in zip(found[0].versions, found[1].versions, strict=True)] == [0, 0, 1, 0]


def test_any_stage_can_be_trained_from_the_log(world, settings, tmp_path):
    found = closed_loop(world, settings, {1: once, 2: chance}, tmp_path, keep=True)
    before, after = (one.served.scores for one in found)
    assert [before[stage] is after[stage] for stage in (1, 2, 3, 4)] == [True, False, True, True]
    assert found[1].log.policy_version[0].tolist() == list(found[1].versions) == [2, 2, 0, 0]


def test_a_sampled_log_keeps_everything_that_training_draws(world, settings, tmp_path):
    seen = []

    def noted(log, state):
        seen.append(log)

    closed_loop(world, settings, {1: noted}, tmp_path, Sampling({1: Quota(5)}))
    assert seen[-1].incl_prob.min() < 1
    assert len(seen[-1].user_id) == 2 * world.n_users  # the window
    assert len(InstanceSampler(seen[-1])) == (seen[-1].y == 1).sum() > 0


def test_losses_of_the_stages_are_those_of_the_metric(world, settings):
    served = serve(world, settings, scores_of(world, settings), 0)
    reached = torch.zeros((len(served.users), world.n_items), dtype=torch.int64)
    for stage in LOST:
        kept = served.kept(stage)
        reached.scatter_(1, kept.items.clamp(min=0), torch.where(kept.valid, stage, 0))
    known = utility_lost(world.utility[served.users], reached, 4, 4)
    ours = list(lost_utility(world, settings, served).values())
    assert ours == pytest.approx(known.lost.mean(0).tolist(), abs=1e-6)


@hypothesis_settings(max_examples=15, deadline=None)
@given(st.integers(0, 5), st.sampled_from([1, 5]), st.sampled_from([0.0, 0.1]))
def test_every_stage_keeps_its_capacity_of_what_came_in(world, settings, number, channels, explore):
    chosen = replace(settings, channels=channels, explore=explore)
    served = serve(world, chosen, scores_of(world, chosen), number)
    sizes = [step.kept for step in served.trace.steps]
    assert int(sizes[0].max()) <= sum(chosen.channel_sizes) + chosen.n_random <= chosen.capacities[0]
    for before, after, capacity in zip(sizes, sizes[1:], chosen.capacities[1:], strict=False):
        assert torch.equal(after, before.clamp(max=capacity))


def test_five_channels_credit_every_item_to_those_that_returned_it(world, settings, tmp_path):
    chosen = replace(settings, channels=5, rounds=1)
    (one,) = closed_loop(world, chosen, {1: oracle}, tmp_path, EVERYTHING, keep=True)
    masks = one.log.channel_mask
    assert (masks > 0).all()
    assert ((masks & 1) > 0).sum() == chosen.channel_sizes[0] * len(one.log)
    shown = (one.log.stage == 4) & ((masks & 1) > 0)
    assert one.figures["reveal yield"] == pytest.approx(shown.sum() / ((masks & 1) > 0).sum())


@pytest.mark.parametrize("values", [{"capacities": (10, 20, 5, 2)}, {"capacities": (9, 3)}, {"channels": 3}])
def test_settings_that_are_no_funnel_are_refused(values):
    with pytest.raises(ConfigError, match="closed loop"):
        LoopSettings(**values)
