"""The routes of the service."""

from shortlist.serve.routes import events, explain, health, recommend

ROUTERS = (recommend.router, explain.router, events.router, health.router)

__all__ = ["ROUTERS"]
