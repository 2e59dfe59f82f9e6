"""The paths of the service, a file for each purpose."""

from shortlist.serve.routes import explain, health, recommend

ROUTERS = (recommend.router, explain.router, health.router)

__all__ = ["ROUTERS"]
