"""Simulated worlds with known user preferences."""

from shortlist.simulate.embedded import embedded
from shortlist.simulate.log import simulate_log
from shortlist.simulate.make import make_world
from shortlist.simulate.repeats import with_repeats
from shortlist.simulate.respond import Outcomes
from shortlist.simulate.shaped_like import amazon_like, power_law
from shortlist.simulate.world import ChoiceModel, World

__all__ = [
    "ChoiceModel",
    "Outcomes",
    "World",
    "amazon_like",
    "embedded",
    "make_world",
    "power_law",
    "simulate_log",
    "with_repeats",
]
