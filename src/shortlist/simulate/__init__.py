"""Worlds with a known truth."""

from shortlist.simulate.embedded import embedded
from shortlist.simulate.log import simulate_log
from shortlist.simulate.make import make_world
from shortlist.simulate.respond import Outcomes
from shortlist.simulate.world import Law, World

__all__ = ["Law", "Outcomes", "World", "embedded", "make_world", "simulate_log"]
