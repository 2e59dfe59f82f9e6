"""Training of one system at one place."""

import numpy as np
import pytest

from shortlist.evaluate.online import RecentPopularity
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    DYNAMIC,
    LAST_CLICK,
    ONE_GRU,
    RECENT,
    STATIC,
    SYSTEMS,
)
from shortlist.lab.experiments.two_time_scale.cells.train_cell import (
    DAY,
    WINDOWS,
    best_window,
    known_first_stage,
    steps_since_base,
    train_cell,
    validated,
)


def trained(place, name):
    return train_cell(place, SYSTEMS[name], 0, None, None, "cpu")


def test_variants_begin_with_the_first_stage_of_the_table(place):
    """The recurrence shares the seconds of the first stage, and its item vectors before they are tuned."""
    own = trained(place, ONE_GRU)
    first = known_first_stage(place, SYSTEMS[CCF], 0, None, None, "cpu")
    assert own.facts["seconds by stage"]["first stage"] == first.seconds
    assert own.facts["seconds"] > first.seconds
    assert own.facts["history"].epochs >= 1
    assert trained(place, CCF).model is first.model


def test_a_shared_recurrence_gives_new_users_the_same_scores(place, data):
    """1-gru and the anchored variant predict users without training events alike; active users differently."""
    one, two = (trained(place, name) for name in (ONE_GRU, ANCHORED))
    history = data.valid.query(slice(0, 8)).history
    np.testing.assert_allclose(
        one.model.scores(history).detach(), two.model.scores(history).detach(), rtol=1e-4, atol=1e-5
    )
    assert two.facts["active users"] > 0
    assert two.facts["threshold"] == place.budget.threshold
    steps = steps_since_base(two.model, data.split, data.test.event_numbers, data.test.known_users)
    active = data.split.train_counts[data.test.users] > place.budget.threshold
    assert (steps[active] >= 20).all()  # the last 20 events are not in the base
    assert (steps[~active] == -1).all()
    assert (
        steps_since_base(trained(place, CCF).model, data.split, data.test.event_numbers, data.test.users)
        is None
    )


def test_oracles_are_above_counts(place, data):
    values = {name: validated(trained(place, name).model, data) for name in (DYNAMIC, STATIC, LAST_CLICK)}
    assert values[DYNAMIC] > values[STATIC] > values[LAST_CLICK]


def test_the_window_of_popularity_is_the_best_on_validation(place, data):
    values = {days: validated(RecentPopularity(data.split.events, days * DAY), data) for days in WINDOWS}
    assert values[best_window(data)] == max(values.values())
    assert trained(place, RECENT).facts["days"] == best_window(data)


def test_a_metric_is_finite(place, data):
    assert validated(trained(place, RECENT).model, data) == pytest.approx(0.2, abs=0.2)
