"""The report on the states of a store."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from shortlist.state.events.log import EventLog
from shortlist.state.report import EventCounts, StateReport
from shortlist.state.table.records import ACTIVE, INTERIM, PRESENT, PROMOTED
from shortlist.state.table.table import StateTable

NAN = float("nan")
GROUPS = (("new", False), ("active", True))


def state_report(
    version: str, tables: Mapping[str, StateTable], log: EventLog, counts: EventCounts, now_ms: int
) -> StateReport:
    """The numbers of the served version; shares are of all events that were offered, and of queries."""
    table = tables.get(version)
    with_record = {
        name: int(((one.records.values["flags"] & PRESENT) > 0).sum()) for name, one in tables.items()
    }
    live = log.with_events()
    flags = np.zeros(0, np.uint8) if table is None else table.records.values["flags"]
    own = np.flatnonzero(flags & PRESENT)
    steps = np.zeros(0) if table is None else table.records.values["steps_since_base"][own]
    return StateReport(
        version=version,
        users=len(live),
        users_by_version=with_record,
        active=int(((flags & ACTIVE) > 0).sum()),
        promoted=int(((flags & PROMOTED) > 0).sum()),
        interim=int(((flags & INTERIM) > 0).sum()),
        dirty=len(log.disordered),
        events=counts,
        late_share=counts.late / counts.offered if counts.offered else NAN,
        disordered_share=counts.disordered / counts.offered if counts.offered else NAN,
        mismatched_share=counts.mismatched / counts.queries if counts.queries else NAN,
        staleness_ms=_quantiles(now_ms - log.last_time.values[live]),
        steps_since_base=_quantiles(steps),
        step_norm={name: NAN if table is None else table.norms.mean(active) for name, active in GROUPS},
        next_event_loss={
            name: NAN if table is None else table.losses.mean(active) for name, active in GROUPS
        },
    )


def _quantiles(values: NDArray[np.generic]) -> dict[str, float]:
    if not len(values):
        return {"p50": NAN, "p95": NAN}
    found = np.quantile(values.astype(np.float64), (0.5, 0.95))
    return {"p50": float(found[0]), "p95": float(found[1])}
