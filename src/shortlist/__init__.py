"""From an interaction log to a multi-stage recommender that says which stage lost what.

    import shortlist

    data = shortlist.read("events.csv", user="user_id", item="item_id", time="ts")
    bundle = shortlist.train("auto", data, out="runs/auto")
    print(shortlist.evaluate(bundle, data))
    print(shortlist.diagnose(bundle, data).findings)

Each function has the name and the defaults of the verb on the command line. They are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shortlist.data import append as append
    from shortlist.data import read as read
    from shortlist.diagnose import diagnose as diagnose
    from shortlist.evaluate import compare as compare  # type: ignore[no-redef]
    from shortlist.evaluate import evaluate as evaluate
    from shortlist.pipeline import Request as Request
    from shortlist.pipeline import load_recommender as load
    from shortlist.train import train as train
    from shortlist.train.auto.plan import plan as plan
    from shortlist.train.renewal.refresh import refresh as refresh

__version__ = "0.4.0"

# Rooms that share their name with a function (train, evaluate, diagnose) are callable modules.
_FUNCTIONS = {
    "Request": ("shortlist.pipeline", "Request"),
    "append": ("shortlist.data", "append"),
    "read": ("shortlist.data", "read"),
    "load": ("shortlist.pipeline", "load_recommender"),
    "compare": ("shortlist.evaluate", "compare"),
    "plan": ("shortlist.train.auto.plan", "plan"),
    "refresh": ("shortlist.train.renewal.refresh", "refresh"),
}
_ROOMS = ("train", "evaluate", "diagnose")

__all__ = [
    "Request",
    "__version__",
    "append",
    "compare",
    "diagnose",
    "evaluate",
    "load",
    "plan",
    "read",
    "refresh",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"shortlist.{name}")
    if name not in _FUNCTIONS:
        raise AttributeError(f"module 'shortlist' has no attribute {name!r}")
    module, function = _FUNCTIONS[name]
    return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return sorted(__all__)
