"""The routes of the service."""

from shortlist.serve.routes import explain, health, recommend

ROUTERS = (recommend.router, explain.router, health.router)

__all__ = ["ROUTERS"]
