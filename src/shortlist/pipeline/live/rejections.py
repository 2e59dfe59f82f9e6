"""Why live events are left out: what was expected, and what came."""

from typing import TYPE_CHECKING

import numpy as np

from shortlist.pipeline.live.states import since_ms
from shortlist.state import RejectedEvent, UserEvent

if TYPE_CHECKING:
    from shortlist.pipeline.recommender import Recommender

SHOWN = 40  # characters of an id
LAST_MS = 253_402_300_799_999  # of the year 9999, the last one of a date


def reason(rejected: RejectedEvent, event: UserEvent, recommender: "Recommender", now_ms: int) -> str:
    """What was expected of a rejected event, and its value."""
    came = f"{moment(event.time_ms)} of item {_shown(event.item_id)}"
    match rejected.code:
        case "unknown_items":
            return f"expected an item of the catalogue, got {_shown(event.item_id)}"
        case "bad_times":
            return f"expected a time from 1970 to 2109, got {came}"
        case "from_the_future":
            return f"expected a time that is not after now, {moment(now_ms)}, got {came}"
        case "before_the_bundle":
            end = moment(since_ms(recommender) - 1)
            return f"expected a time after the end of the bundle's log, {end}, got {came}"
        case "bad_ids":
            return f"{rejected.detail}, got user {_shown(event.user_id)} and item {_shown(event.item_id)}"
        case _:
            return rejected.detail


def bundle_warnings(recommender: "Recommender", now_ms: int) -> list[str]:
    """What of the bundle makes live events useless."""
    end = since_ms(recommender) - 1
    if end <= now_ms:
        return []
    return [
        f"the bundle's log ends at {moment(end)}, which is after now, {moment(now_ms)}: live events before that time "
        "are left out; correct the times of the data and train again"
    ]


def moment(time_ms: int) -> str:
    """A time in milliseconds since 1970 as a date, or as the number where it is none."""
    if not 0 <= time_ms <= LAST_MS:
        return f"{time_ms:.16g}"
    return f"{np.datetime64(time_ms, 'ms')}Z"


def _shown(value: object) -> str:
    return repr(value if isinstance(value, int) else str(value)[:SHOWN])
