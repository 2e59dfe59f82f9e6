"""Simulated worlds with known user preferences."""

from shortlist.simulate.embedded import embedded
from shortlist.simulate.log import simulate_log
from shortlist.simulate.make import make_world
from shortlist.simulate.respond import Outcomes
from shortlist.simulate.world import ChoiceModel, World

__all__ = ["ChoiceModel", "Outcomes", "World", "embedded", "make_world", "simulate_log"]
