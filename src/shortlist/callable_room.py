"""A room that is also its main function: `shortlist.train` is a package, and `shortlist.train(...)` trains."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def make_callable(room: str, function: Callable[..., Any]) -> None:
    """Let the module named `room` be called like `function`."""
    kind = type("CallableModule", (ModuleType,), {"__call__": staticmethod(function)})
    sys.modules[room].__class__ = kind
