"""The rules numbers were measured by, in words: without them no two numbers can be compared."""

from collections.abc import Mapping
from typing import Any

from shortlist.grammar import Nominator, Pipeline
from shortlist.pipeline.recipe import leaves
from shortlist.stages import Seen

SPLITS = {
    "half-history": "users are held out; the first half of their events goes in, the rest must come out",
    "global-time": "what happened before a point in time is learned from; what came after must be foretold",
    "leave-last-out": "every user's last event must be foretold, the one before it is there to choose by",
}
TIES = "equal scores are ordered by item row"
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
    """What a pipeline does with items a user has met, told from its stages."""
    stages = leaves(pipeline)
    filters = [one for one in stages if isinstance(one, Seen)]
    if any(not one.last for one in filters):
        return "left out"
    if filters:
        return f"the last {max(one.last for one in filters)} are left out, older ones can come back"
    nominators = [one for one in stages if isinstance(one, Nominator)]
    fresh = [one for one in nominators if getattr(one, "fresh", False)]
    if fresh and len(fresh) == len(nominators):
        return "left out"
    return "left out by some nominators" if fresh else "can come back"
