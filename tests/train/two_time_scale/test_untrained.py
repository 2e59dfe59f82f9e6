import numpy as np
import pytest
import torch

from shortlist.train.two_time_scale.personal import ItemSpace, fitted, held_vectors
from shortlist.train.two_time_scale.untrained import NOBODY, set_own_vectors, untrained
from tests.train.two_time_scale.worlds import quick, tastes

EVENTS = tastes()
ACTIVE = EVENTS.lengths > 12
USERS = np.flatnonzero(ACTIVE)
torch.manual_seed(0)
SPACE = ItemSpace(torch.randn(EVENTS.n_items, 9), torch.randn(9), 0.5)  # 6 and 3 of features


def test_model_has_the_item_vectors_and_begins_at_the_mean():
    model = untrained(quick(), EVENTS, ACTIVE, 12, SPACE)
    assert torch.equal(model.items, SPACE.items)
    assert torch.equal(model.start.detach(), SPACE.mean)
    assert (model.config.feature_width, model.config.threshold, model.config.n_active) == (3, 12, len(USERS))
    assert model.own_row[torch.from_numpy(USERS)].tolist() == list(range(len(USERS)))


@pytest.mark.parametrize(
    ("settings", "of_all", "left"),
    [({}, False, 4), ({"base": "full"}, True, 4), ({"base": "full", "replay": False}, True, 0)],
)
def test_base_says_which_events_are_not_replayed(settings, of_all, left):
    trainer = quick(**settings)
    model = untrained(trainer, EVENTS, ACTIVE, 12, SPACE)
    set_own_vectors(model, trainer, EVENTS, USERS, SPACE)
    starts, stops = EVENTS.starts[USERS], EVENTS.starts[USERS + 1]
    expected = fitted(EVENTS, starts, stops, SPACE) if of_all else held_vectors(EVENTS, USERS, 4, SPACE)
    assert torch.equal(model.own, expected)
    assert model.base.tolist() == (EVENTS.lengths[USERS] - left).tolist()


def test_common_vector_is_one_row_for_all_active_users():
    trainer = quick(personal="common")
    model = untrained(trainer, EVENTS, ACTIVE, 12, SPACE)
    set_own_vectors(model, trainer, EVENTS, USERS, SPACE)
    assert torch.equal(model.personal(torch.from_numpy(USERS)), SPACE.mean.expand(len(USERS), -1))
    assert (model.config.readout, model.base.sum()) == ("plain", 0)


def test_model_without_active_users_has_no_threshold():
    model = untrained(quick(), EVENTS, np.zeros(EVENTS.n_users, bool), NOBODY, SPACE)
    set_own_vectors(model, quick(), EVENTS, USERS[:0], SPACE)
    assert (model.config.threshold, model.config.n_active) == (-1, 0)
