import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.train.objectives import (
    LADDERS,
    InstanceSampler,
    StageLog,
    default_counts,
    lowest_stage,
    make_objective,
    relabel,
)

N_ITEMS = 400


def funnel_log(n_stages=3, requests=30, seed=0, width=24, incl_prob=False):
    """Random requests of 8 users: `width` different items each, all strata, some without exposed negatives."""
    rng = np.random.default_rng(seed)
    items = np.concatenate([rng.permutation(N_ITEMS)[:width] for _ in range(requests)])
    stage = rng.integers(0, n_stages + 1, requests * width)
    y = np.where(rng.random(len(stage)) < 0.2, -1, rng.integers(0, 2, len(stage)))
    first = np.repeat(np.arange(requests), width) % 3 == 0
    y = np.where(first & (stage == n_stages) & (y == 0), 1, y)  # every third request has no exposed negative
    prob = np.where(stage == 1, 0.02, np.where(stage == 2, 0.005, 1.0)) if incl_prob else None
    offsets = np.arange(requests + 1) * width
    return StageLog(rng.integers(0, 8, requests), offsets, items, stage, y, N_ITEMS, n_stages, prob)


def positives_of(log):
    """User, item of every exposed positive, one by one."""
    return [
        (int(log.user_id[request]), int(log.item_id[row]))
        for request in range(len(log.user_id))
        for row in range(log.offsets[request], log.offsets[request + 1])
        if log.stage[row] == log.n_stages and log.y[row] == 1
    ]


def everything(sampler, epoch=0):
    """All batches of an epoch as one tuple of tensors."""
    batches = list(sampler.batches(epoch))
    return tuple(torch.cat([getattr(one, name) for one in batches]) for name in vars(batches[0]))


@pytest.mark.parametrize("n_stages", [3, 4, 5])
def test_every_list_has_a_positive_and_negatives_of_each_stage_of_its_request(n_stages):
    log = funnel_log(n_stages)
    sampler = InstanceSampler(log, batch_size=7)
    users, items, labels, mask, weight = everything(sampler)
    strata = [n_stages + 1, n_stages, *range(n_stages - 1, 0, -1), 0, 0]
    assert items.shape == (len(positives_of(log)), len(strata)) == (len(sampler), sampler.width)
    assert sorted(zip(users.tolist(), items[:, 0].tolist(), strict=True)) == sorted(positives_of(log))
    assert torch.equal(weight, mask.float())
    known = relabel(log.stage, log.y, LADDERS["consecutive"](n_stages), n_stages)
    logged = {
        (int(log.user_id[request]), int(log.item_id[row]), float(known[row]))
        for request, row in zip(log.request, range(log.n_rows), strict=True)
    }
    for place, stratum in enumerate(strata[:-2]):
        seen = mask[:, place]
        assert set(labels[seen, place].tolist()) == {float(stratum)}
        for user, item in zip(users[seen].tolist(), items[seen, place].tolist(), strict=True):
            assert (user, item, float(stratum)) in logged
    assert mask[:, -2:].all()
    assert labels[:, -2:].abs().sum() == 0


def test_slot_without_an_exposed_negative_is_masked_and_never_replaced():
    log = funnel_log()
    _, items, labels, mask, weight = everything(InstanceSampler(log))
    empty = ~mask[:, 1]
    assert empty.any()
    assert not empty.all()
    assert set(items[empty, 1].tolist()) == {-1}
    assert labels[empty, 1].sum() == weight[empty, 1].sum() == 0
    assert set(labels[~empty, 1].tolist()) == {3.0}


def test_items_with_unknown_feedback_of_the_last_stage_are_in_no_list():
    log = funnel_log(n_stages=3, requests=1, width=60)
    unknown = {
        int(item)
        for item, stage, y in zip(log.item_id, log.stage, log.y, strict=True)
        if stage == 3 and y == -1
    }
    sampler = InstanceSampler(log, counts={3: 60, 2: 60, 1: 60})
    assert unknown
    assert not unknown & set(everything(sampler)[1].flatten().tolist())


def test_negatives_of_a_stratum_are_distinct_and_all_are_used_where_there_are_few():
    log = funnel_log()
    _, items, _, mask, _ = everything(InstanceSampler(log, counts={2: 30}))
    for own, valid in zip(items, mask, strict=True):
        kept = own[valid].tolist()
        assert len(set(kept)) == len(kept)
    per_request = [int(((log.request == one) & (log.stage == 2)).sum()) for one in range(30)]
    assert int(mask.sum(1).max()) - 1 == max(
        per_request[one] for one in range(30) if ((log.request == one) & (log.stratum == 4)).any()
    )


def test_global_negatives_are_never_positives_of_their_user():
    log = funnel_log(requests=120)
    extra = (np.arange(8).repeat(200), np.tile(np.arange(200, 400), 8))
    users, items, _, mask, _ = everything(InstanceSampler(log, counts={0: 50}, exclude=extra))
    forbidden = set(positives_of(log)) | set(zip(*(one.tolist() for one in extra), strict=True))
    drawn = {
        (user, item) for user, own in zip(users.tolist(), items[:, 1:].tolist(), strict=True) for item in own
    }
    assert not drawn & forbidden
    assert mask.all()


def test_user_whose_positives_are_the_whole_catalogue_gets_masked_slots():
    log = StageLog(*map(np.array, ([0], [0, 2], [0, 1], [1, 1], [1, 1])), 2, 1)
    _, items, _, mask, _ = everything(InstanceSampler(log, counts={0: 2}))
    assert items[:, 1:].tolist() == [[-1, -1]] * 2
    assert mask.tolist() == [[True, False, False]] * 2


def test_same_seed_and_epoch_give_the_same_batches_and_another_epoch_others():
    log = funnel_log()
    one, two = everything(InstanceSampler(log, seed=3)), everything(InstanceSampler(log, seed=3))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    for other in (everything(InstanceSampler(log, seed=3), 1), everything(InstanceSampler(log, seed=4))):
        assert sorted(map(tuple, one[1].tolist())) != sorted(map(tuple, other[1].tolist()))


def test_kept_draws_are_the_same_lists_in_another_order():
    sampler = InstanceSampler(funnel_log(), keep_draws=True, batch_size=5)
    one, two = everything(sampler, 0)[1].tolist(), everything(sampler, 1)[1].tolist()
    assert one != two
    assert sorted(one) == sorted(two)


@pytest.mark.parametrize("positives", [2, 3, 50])
def test_groups_of_positives_hold_every_positive_once_per_epoch(positives):
    log = funnel_log()
    users, items, labels, mask, _ = everything(InstanceSampler(log, positives=positives))
    found = [
        (user, item)
        for user, own in zip(users.tolist(), items[:, :positives].tolist(), strict=True)
        for item in own
        if item >= 0
    ]
    assert sorted(found) == sorted(positives_of(log))
    assert mask[:, 0].all()
    assert set(labels[:, :positives][mask[:, :positives]].tolist()) == {4.0}


def test_groups_of_positives_are_others_in_another_epoch():
    sampler = InstanceSampler(funnel_log(), positives=2, counts={2: 1})
    groups = [{frozenset(own) for own in everything(sampler, epoch)[1][:, :2].tolist()} for epoch in (0, 1)]
    assert groups[0] != groups[1]


def test_labels_are_consecutive_after_a_stratum_is_dropped():
    """Specification 3.1 and 6, test 20: without rank negatives the labels are 0, 1, 2, 3."""
    sampler = InstanceSampler(funnel_log(), counts={3: 1, 1: 1, 0: 2})
    _, _, labels, mask, _ = everything(sampler)
    assert set(labels[mask].tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert sampler.relevant_from == 3.0
    exposed = InstanceSampler(funnel_log(), counts=default_counts(3, lowest_stage(3, 3, 3)))
    assert set(everything(exposed)[2].flatten().tolist()) == {0.0, 1.0}


def test_ladder_sets_the_labels():
    sampler = InstanceSampler(funnel_log(), ladder=LADDERS["low-exposed-negative"](3))
    _, _, labels, mask, _ = everything(sampler)
    assert [set(labels[mask[:, one], one].tolist()) for one in range(3)] == [{4.0}, {2.0}, {3.0}]


def test_weights_are_clipped_inverse_inclusion_probabilities():
    log = funnel_log(incl_prob=True)
    weight, mask = (everything(InstanceSampler(log, ht_weight=True))[one] for one in (4, 3))
    assert [set(weight[mask[:, one], one].tolist()) for one in range(6)] == [
        {1.0},
        {1.0},
        {100.0},
        {50.0},
        {1.0},
        {1.0},
    ]
    assert set(everything(InstanceSampler(log))[4].flatten().tolist()) == {0.0, 1.0}


def test_weights_with_the_draw_estimate_the_sizes_of_strata():
    log = funnel_log(requests=200, width=40, incl_prob=True)
    sampler = InstanceSampler(log, ht_weight=True, ht_draw=True, ht_clip=1e9, counts={3: 1, 2: 2, 1: 2, 0: 2})
    weight = everything(sampler)[-1]
    requests = list(log.request[log.stratum == 4])
    for stage, prob in ((3, 1.0), (2, 0.005), (1, 0.02)):
        sizes = sum(((log.request == one) & (log.stratum == stage)).sum() / prob for one in requests)
        places = {3: [1], 2: [2, 3], 1: [4, 5]}[stage]
        assert weight[:, places].sum().item() == pytest.approx(sizes, rel=1e-4)


def test_empty_log_has_no_batch():
    log = StageLog(*map(np.array, ([], [0], [], [], [])), 5, 3)
    assert len(InstanceSampler(log)) == 0
    assert list(InstanceSampler(log).batches(0)) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"counts": {4: 1}}, r"stages 0\.\.3 to numbers of negatives, got 4: 1"),
        ({"counts": {1: -1}}, "got 1: -1"),
        ({"batch_size": 0}, "at least 1"),
        ({"ladder": (0.0, 1.0)}, "3 stages need 5 labels"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        InstanceSampler(funnel_log(), **settings)


@pytest.mark.parametrize("name", ["ranknet", "lambdarank", "lambdaloss", "margin", "soft-label"])
def test_graded_objectives_learn_the_order_of_the_strata(name):
    """One score per item; every item has the same stratum in all requests."""
    stratum = np.arange(60) % 5
    stage, y = np.minimum(stratum, 3), np.where(stratum == 4, 1, np.where(stratum == 3, 0, -1))
    log = StageLog(
        np.zeros(4, np.int64),
        np.arange(5) * 60,
        *(np.tile(one, 4) for one in (np.arange(60), stage, y)),
        60,
        3,
    )
    sampler = InstanceSampler(log, counts={3: 2, 2: 2, 1: 2}, batch_size=16)
    scores = torch.zeros(61, requires_grad=True)
    objective, optimizer = make_objective(name), torch.optim.Adam([scores], 0.05)
    for epoch in range(15):
        for batch in sampler.batches(epoch):
            optimizer.zero_grad()
            objective(scores[batch.items], batch.labels, batch.mask, batch.weight).mean().backward()
            optimizer.step()
    means = [scores[:60].detach()[torch.from_numpy(stratum == one)].mean().item() for one in range(1, 5)]
    assert means == sorted(means)
    assert means[-1] > means[0] + 0.5
