"""Users with a long-term taste and a short-term one that moves with every event; their activity is a power law."""

from shortlist.simulate.drift.oracle import Oracle
from shortlist.simulate.drift.settings import SIZES, DriftSettings
from shortlist.simulate.drift.world import DriftWorld, make_drift_world

__all__ = ["SIZES", "DriftSettings", "DriftWorld", "Oracle", "make_drift_world"]
