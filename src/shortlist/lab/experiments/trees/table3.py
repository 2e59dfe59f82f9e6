"""Table 3 of the DTR paper: response time of beam search and of scoring every item, with the same model.

The model is untrained, because speed does not depend on its weights; histories are random with 69 items, catalogues
have the sizes of the paper. Both searches run in turn on the same device and precision, so their ratio is of one run.
On an H200 it takes about 60 s, most of it for scoring every item of the largest catalogue.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from shortlist.index.tree import TreeIndex, exhaustive, search
from shortlist.lab.experiments.trees.catalogs import catalogues, untrained
from shortlist.lab.experiments.trees.tree_speed import seconds_of
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
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
) -> Result:
    """Users per second and nodes scored per user; one value per repeat, all with the first seed."""
    began, seed, quick, plan = start(), seeds[0], profile != "full", plan_of("dtr-u")
    rows: list[Row] = []
    claims: list[Claim] = []
    sizes = catalogues(profile, "dtr-table3")
    users, beam, repeats = (10, 10, 2) if quick else (USERS, BEAM, REPEATS)
    for done, (name, items) in enumerate(sizes.items(), start=1):
        device = device_of("auto")
        index = untrained(plan, items, seed, device)
        histories = _histories(users, items, index.scorer.config.max_history, seed).to(device)
        times = _timed(index, histories, beam, repeats)
        rows += _rows(times, _nodes(index, histories, beam), name, items, users)
        claims += [] if quick else _claims(times, name)
        progress("search", done, len(sizes))
    settings = {"dtr-u": {**asdict(plan), "search_beam": beam, "users": users}}
    return result("dtr-table3", profile, [seed], began, rows, claims, x="items", settings=settings)


def _histories(users: int, items: int, max_history: int, seed: int) -> Tensor:
    return torch.randint(items, (users, max_history), generator=torch.Generator().manual_seed(seed))


def _timed(index: TreeIndex, histories: Tensor, beam: int, repeats: int) -> Seconds:
    """Seconds of each repeat, in half precision on a GPU."""
    with torch.autocast(histories.device.type, torch.bfloat16, enabled=histories.is_cuda):
        return {
            "beam": seconds_of(lambda: search(index, histories, 20, beam), repeats),
            "every item": seconds_of(lambda: exhaustive(index, histories, 20), repeats),
        }


def _nodes(index: TreeIndex, histories: Tensor, beam: int) -> dict[str, float]:
    """The mean number of nodes scored for a user."""
    beams = search(index, histories, 20, beam, trace=True).beams
    scored = float(torch.stack([one.n_scored for one in beams]).double().sum(0).mean())
    return {"beam": scored, "every item": float(index.tree.shape.n)}


def _rows(times: Seconds, nodes: Mapping[str, float], name: str, items: int, users: int) -> list[Row]:
    """Two rows per search, and two ratios of both."""
    rows = [row(way, "users/s", [users / one for one in took], x=items) for way, took in times.items()]
    rows += [row(way, "nodes scored per user", [count], x=items) for way, count in nodes.items()]
    fewer = nodes["every item"] / nodes["beam"]
    rows.append(row("every item / beam", f"nodes scored, {name}", [fewer], x=items))
    rows.append(row("every item / beam", f"seconds, {name}", _ratios(times), x=items))
    return rows


def _ratios(times: Seconds) -> list[float]:
    return [slow / fast for slow, fast in zip(times["every item"], times["beam"], strict=True)]


def _claims(times: Seconds, name: str) -> list[Claim]:
    """The beam is faster at all, and by as much as was published."""
    ratios, (slow, fast) = _ratios(times), PUBLISHED[name]
    limits = {
        f"beam faster than every item, {name}": 1.0,
        f"as much faster as published, {name}": slow / fast,
    }
    return [
        claim(
            text,
            SOURCE,
            min(ratios) > limit,
            statistics.median(ratios),
            f"ratio of seconds above {limit:.3g}; the interval is the range of {len(ratios)} repeats",
            [min(ratios), max(ratios)],
        )
        for text, limit in limits.items()
    ]
