"""User vectors of live states come with the query; without them, models read histories."""

import torch

from shortlist.data import Query
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.models.user_vectors import model_version, state_key, user_vectors

ITEMS = 6


def model(seed=0):
    torch.manual_seed(seed)
    made = TwoTimeScale(TwoTimeScaleConfig(n_items=ITEMS, width=4)).eval()
    with torch.no_grad():
        made.items.normal_()
        made.start.normal_()
    return made


def query(**context):
    plain = Query.of([[1, 2], [3], []], [-1, -1, -1])
    return Query(plain.user, plain.history, plain.time, plain.seed, context)


def test_version_is_that_of_class_settings_and_weights():
    one, same, other = model(), model(), model(1)
    longer = TwoTimeScale(TwoTimeScaleConfig(n_items=ITEMS, width=4, max_history=7))
    longer.load_state_dict(one.state_dict())
    assert model_version(one) == model_version(same)
    assert len({model_version(each) for each in (one, other, longer)}) == 3


@torch.no_grad()
def test_vectors_of_the_query_are_used_for_these_weights_only():
    one, other = model(), model(1)
    given = torch.randn(3, 4)
    asked = query(**{state_key(model_version(one)): given})
    assert torch.equal(user_vectors(one, asked), given)
    assert torch.equal(user_vectors(other, asked), other.users(asked.history, asked.user))


@torch.no_grad()
def test_requests_without_vectors_are_computed_from_their_histories():
    one = model()
    given = torch.randn(3, 4)
    given[1] = torch.nan
    asked = query(**{state_key(model_version(one)): given})
    found, replayed = user_vectors(one, asked), one.users(asked.history, asked.user)
    assert torch.equal(found[[0, 2]], given[[0, 2]])
    torch.testing.assert_close(found[1], replayed[1])
    assert bool(given[1].isnan().all())  # the query itself is as it was


@torch.no_grad()
def test_models_without_states_read_histories():
    towers = (
        TwoTower(TwoTowerConfig(ITEMS, 10, 1, 8, 16))
        .with_categories(torch.zeros(ITEMS, dtype=torch.int64))
        .eval()
    )
    asked = query(**{state_key("any"): torch.randn(3, 16)})
    assert torch.equal(user_vectors(towers, asked), towers.users(asked.history, asked.user))


@torch.no_grad()
def test_query_without_context_is_answered_from_histories():
    one = model()
    assert torch.equal(user_vectors(one, query()), one.users(query().history, query().user))
