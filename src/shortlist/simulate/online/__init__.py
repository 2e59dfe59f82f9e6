"""Learning to learn: users with true vectors, offline descent on few or many events, then online descent."""

from shortlist.simulate.online.excess import excess_surface
from shortlist.simulate.online.halves import split_half
from shortlist.simulate.online.offline import Offline, offline_descent
from shortlist.simulate.online.run import OnlineRun, grid_of_lengths, simulate_online
from shortlist.simulate.online.world import OnlineSettings, OnlineWorld, make_online_world

__all__ = [
    "Offline",
    "OnlineRun",
    "OnlineSettings",
    "OnlineWorld",
    "excess_surface",
    "grid_of_lengths",
    "make_online_world",
    "offline_descent",
    "simulate_online",
    "split_half",
]
