"""Table 3 of the DTR paper: the time to answer by a beam and by scoring every item, with the same model.

The model is not taught, for speed does not depend on what it knows; histories are random and 69 long, catalogues have
the sizes of the paper's. Both ways run in turn on the same device and precision, so their ratio is of one run. On an
H200 it takes about 60 s, most of it for every item of the largest catalogue.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.index.tree import TreeIndex, exhaustive, search
from shortlist.lab.experiments.trees.catalogs import catalogues, untaught
from shortlist.lab.experiments.trees.tree_speed import seconds_of
from shortlist.lab.result import claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.loop.device import device_of
from shortlist.train.tree.plan import plan_of

SOURCE = "DTR paper, table 3"
PUBLISHED = {  # seconds for all test users: every item, beam
    "movie": (81.32, 5.58),
    "mind": (38.93, 3.40),
    "amazon": (217.21, 3.53),
    "tmall": (2104.05, 18.79),
}
BEAM, USERS, REPEATS = 150, 500, 7
Seconds = Mapping[str, list[float]]


def dtr_table3(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0,), progress: Progress = silent
) -> dict[str, Any]:
    """Users per second and nodes scored per user; one value for each repeat, all with the first seed."""
    began, seed, quick = start(), seeds[0], profile != "full"
    rows, claims = [], []
    sizes = catalogues(profile, "dtr-table3")
    users, beam, repeats = (10, 10, 2) if quick else (USERS, BEAM, REPEATS)
    for done, (name, items) in enumerate(sizes.items(), start=1):
        device = device_of("auto")
        index = untaught(plan_of("dtr-u"), items, seed, device)
        histories = _histories(users, items, index.scorer.config.max_history, seed).to(device)
        times = _timed(index, histories, beam, repeats)
        rows += _rows(times, _nodes(index, histories, beam), name, items, users)
        claims += [] if quick else _claims(times, name)
        progress("answers", done, len(sizes))
    return result("dtr-table3", profile, [seed], began, rows, claims) | {"x": "items"}


def _histories(users: int, items: int, max_history: int, seed: int) -> Tensor:
    return torch.randint(items, (users, max_history), generator=torch.Generator().manual_seed(seed))


def _timed(index: TreeIndex, histories: Tensor, beam: int, repeats: int) -> Seconds:
    """Seconds of each repeat, in half precision where that is fast."""
    with torch.autocast(histories.device.type, torch.bfloat16, enabled=histories.is_cuda):
        return {
            "beam": seconds_of(lambda: search(index, histories, 20, beam), repeats),
            "every item": seconds_of(lambda: exhaustive(index, histories, 20), repeats),
        }


def _nodes(index: TreeIndex, histories: Tensor, beam: int) -> dict[str, float]:
    """Nodes scored for a user, on average."""
    beams = search(index, histories, 20, beam, trace=True).beams
    looked = float(torch.stack([one.n_scored for one in beams]).double().sum(0).mean())
    return {"beam": looked, "every item": float(index.tree.shape.n)}


def _rows(
    times: Seconds, nodes: Mapping[str, float], name: str, items: int, users: int
) -> list[dict[str, Any]]:
    """Every way gives two rows, both together two ratios."""
    rows = [row(who, "users/s", [users / one for one in took]) | {"x": items} for who, took in times.items()]
    rows += [row(who, "nodes scored per user", [count]) | {"x": items} for who, count in nodes.items()]
    fewer = nodes["every item"] / nodes["beam"]
    rows.append(row("every item / beam", f"nodes scored, {name}", [fewer]) | {"x": items})
    rows.append(row("every item / beam", f"seconds, {name}", _ratios(times)) | {"x": items})
    return rows


def _ratios(times: Seconds) -> list[float]:
    return [slow / fast for slow, fast in zip(times["every item"], times["beam"], strict=True)]


def _claims(times: Seconds, name: str) -> list[dict[str, Any]]:
    """The beam is faster at all, and by as much as was published."""
    ratios, (slow, fast) = _ratios(times), PUBLISHED[name]
    limits = {
        f"beam faster than every item, {name}": 1.0,
        f"as much faster as published, {name}": slow / fast,
    }
    return [
        claim(
            said,
            SOURCE,
            min(ratios) > limit,
            statistics.median(ratios),
            f"ratio of seconds above {limit:.3g}; the interval is the range of {len(ratios)} repeats",
            [min(ratios), max(ratios)],
        )
        for said, limit in limits.items()
    ]
