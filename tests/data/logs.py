"""Random logs for property tests: few users and items, so there are many repeats and ties."""

import numpy as np
from hypothesis import strategies as st

from shortlist.data import Interactions


def make_log(users, items, times):
    return Interactions.of(
        np.array(users, int), np.array(items, int), np.array(times, int), n_users=8, n_items=12
    )


@st.composite
def logs(draw, least=1, most=120, users=8, last_time=9):
    """Events in any order, with ties in time."""
    count = draw(st.integers(least, most))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    columns = (rng.integers(0, top, count) for top in (users, 12, last_time + 1))
    return make_log(*columns)


def event_tuples(events):
    """Events as (user, time, item) in order."""
    return list(zip(events.users.tolist(), events.times.tolist(), events.items.tolist(), strict=True))
