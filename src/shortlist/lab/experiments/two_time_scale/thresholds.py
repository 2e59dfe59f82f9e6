"""The threshold curve: the best t* on validation by brute force, and the automatic choice."""

from collections.abc import Iterator

import numpy as np

from shortlist.lab.experiments.two_time_scale.cells.places import Place
from shortlist.lab.experiments.two_time_scale.cells.state_claims import PLAN
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    AT_THRESHOLD,
    CHOSEN_THRESHOLD,
    ONE_GRU,
    THRESHOLDS,
)
from shortlist.lab.result import Claim, Row, claim, row

VALIDATION = "validation mrr by threshold"
NOBODY = 1000  # where "nobody is active" is drawn


def threshold_rows(table: StateTable) -> Iterator[Row]:
    """Validation metric by threshold; without active users it is the single recurrence; and the automatic choice."""
    for place in table.places:
        for threshold, values in _curve(table, place).items():
            yield row(f"threshold on {place}", VALIDATION, values, x=float(threshold))
        chosen = [_drawn(one) for one in table.fact(place, CHOSEN_THRESHOLD, "threshold")]
        if chosen:
            values = table.fact(place, CHOSEN_THRESHOLD, "validation")
            yield row(f"automatic choice on {place}", VALIDATION, values, x=float(np.mean(chosen)))
            yield row(f"automatic choice on {place}", "chosen threshold", [float(one) for one in chosen])


def threshold_claims(table: StateTable) -> Iterator[Claim]:
    """An interior optimum, and an automatic choice that is as good as the best threshold."""
    for place in table.places:
        curve = {at: float(np.mean(values)) for at, values in _curve(table, place).items()}
        if len(curve) < 3:
            continue
        best = max(curve, key=lambda at: curve[at])
        note = "best threshold on validation: " + ", ".join(
            f"{'inf' if at == NOBODY else at} {one:.4f}" for at, one in curve.items()
        )
        inside = min(curve) < best < max(curve)
        yield claim(f"interior optimum of the threshold, on {place}", f"{PLAN} E4", inside, best, note)
        automatic = table.fact(place, CHOSEN_THRESHOLD, "validation")
        if automatic:
            loss = curve[best] - float(np.mean(automatic))
            name = f"automatic threshold within 1 % of the best one, on {place}"
            text = "validation mrr of the best threshold minus that of the automatic choice"
            yield claim(name, "two_time_scale 4", loss <= 0.01 * curve[best], loss, text)


def _curve(table: StateTable, place: Place) -> dict[int, list[float]]:
    found = {at: table.fact(place, f"{AT_THRESHOLD}{at}", "validation") for at in THRESHOLDS}
    return {at: one for at, one in {**found, NOBODY: table.fact(place, ONE_GRU, "validation")}.items() if one}


def _drawn(threshold: int) -> int:
    return NOBODY if threshold < 0 else threshold
