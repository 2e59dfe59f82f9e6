"""A full-stage log of a simulated service: a world, its data set, a funnel, requests and their feedback."""

from shortlist.simulate.full_stage.logged.funnel import world_pipeline
from shortlist.simulate.full_stage.logged.requests import SimulatedLog, bundle_queries, simulate_requests
from shortlist.simulate.full_stage.logged.settings import SimulationSettings
from shortlist.simulate.full_stage.logged.world import SERVED_WORLDS, ServedWorld, served_world

__all__ = [
    "SERVED_WORLDS",
    "ServedWorld",
    "SimulatedLog",
    "SimulationSettings",
    "bundle_queries",
    "served_world",
    "simulate_requests",
    "world_pipeline",
]
