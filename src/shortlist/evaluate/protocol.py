"""The rules numbers were measured by, in words: without them no two numbers can be compared."""

import math
from collections.abc import Mapping
from typing import Any

from shortlist.grammar import Pipeline, Pool, Stage, Top
from shortlist.pipeline.guards import Guard
from shortlist.pipeline.recipe import leaves
from shortlist.stages import Seen

SPLITS = {
    "half-history": "users are held out; the first half of their events goes in, the rest must come out",
    "global-time": "what happened before a point in time is learned from; what came after must be foretold",
    "leave-last-out": "every user's last event must be foretold, the one before it is there to choose by",
}
TIES = (
    "yardsticks and models that are asked alone order equal scores by item row; in a pipeline equal scores keep the "
    "order of the nominators that named them"
)
DUPLICATES = "an item that came more than once counts once"
CATALOGUE = "all items compete, no negatives are drawn"


def rules(settings: Mapping[str, Any], on: str, users: int) -> dict[str, str]:
    """How cases were made and how slates are counted; `settings` are those of the split."""
    name = str(settings.get("protocol", "half-history"))
    chosen = ", ".join(f"{key} {value}" for key, value in settings.items() if key != "protocol")
    return {
        "protocol": f"{name}: {SPLITS.get(name, 'a protocol of its own')}",
        "settings": chosen or "none",
        "asked": f"{users:,} users, the {on} part",
        "ties": TIES,
        "duplicates": DUPLICATES,
        "catalogue": CATALOGUE,
        "yardsticks": "counted over the learning part alone, seen items left out",
    }


def seen_rule(pipeline: Pipeline) -> str:
    """What a pipeline does with items a user has met, told from its stages; who brings some back is named."""
    reaches = _reaches(pipeline)
    if len({reach for _, reach in reaches}) == 1:
        return _words(reaches[0][1])
    leaky = sorted({reach for _, reach in reaches if reach < math.inf})
    told = ((reach, ", ".join(name for name, one in reaches if one == reach)) for reach in leaky)
    return " and ".join(f"{_comes_back(reach)} from {names}" for reach, names in told)


def _reaches(stage: Stage) -> list[tuple[str, float]]:
    """Every nominator, and how many of the last items are left out of what it names, by itself or after it."""
    if isinstance(stage, Top | Guard):
        return _reaches(stage.inner)
    if isinstance(stage, Pool):
        return [one for part in stage.parts for one in _reaches(part)]
    if isinstance(stage, Pipeline):
        after = max((_reach(leaf) for step in stage.stages[1:] for leaf in leaves(step)), default=0)
        return [(name, max(reach, after)) for name, reach in _reaches(stage.stages[0])]
    return [(stage.title, _reach(stage))]


def _reach(stage: Stage) -> float:
    """How many of the last items a plain stage leaves out."""
    if isinstance(stage, Seen):
        return stage.last or math.inf
    return math.inf if getattr(stage, "exclude_seen", False) else 0


def _words(reach: float) -> str:
    if reach in (0, math.inf):
        return "left out" if reach else "can come back"
    return f"the last {reach:.0f} are left out, older ones can come back"


def _comes_back(reach: float) -> str:
    return f"those older than the last {reach:.0f} can come back" if reach else "can come back"
