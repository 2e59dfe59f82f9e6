"""Item pools of several nominators: who nominates what, and which examples each learns from."""

from shortlist.train.pools.weights import Nominations, WeightRule

__all__ = ["Nominations", "WeightRule"]
