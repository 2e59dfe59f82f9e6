"""Which stage of a pipeline loses what is wanted, how sure that is, and what mending it would bring."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.diagnose.calibration import calibration
from shortlist.diagnose.findings.text import counted
from shortlist.diagnose.follow_items import CATALOGUE, Followed, follow
from shortlist.diagnose.full_catalog import Verdict, compare_to_flat
from shortlist.diagnose.knobs.knobs import Knob, knobs, rules
from shortlist.diagnose.nominators import Worth, attribution
from shortlist.diagnose.offline import hurried, offline
from shortlist.diagnose.sample import SLATE, UserSample, panel
from shortlist.diagnose.scorer_inputs import Sample, Served, served
from shortlist.diagnose.segments import Pairs, by_segment
from shortlist.diagnose.shift import shifts
from shortlist.diagnose.what_if import WhatIf, what_if
from shortlist.errors import DataError
from shortlist.evaluate.losses import Losses, decompose
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.estimate import FEWEST, Estimate
from shortlist.pipeline import Recommender
from shortlist.pipeline.recommender import resized, slate_size
from shortlist.progress import Progress, silent

USERS = 1000  # followed through all stages, at most
TURNED = 300  # of them, those on whom knobs are turned and nominators left out, at most
SCORES = 1_000_000  # users x items that the verdict scores, at most, unless that were too few users


@dataclass(frozen=True)
class StageReport:
    """One stage: what wanted items came, what became of them, and what if it had lost none."""

    name: str
    kind: str
    entered: int
    survived: int
    lost: int
    removed: int
    no_room: int
    share: Estimate
    conditional: float | None
    candidates: float
    short: int
    ordered_by: str | None
    what_if: WhatIf

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "share": self.share.as_dict(), "what_if": self.what_if.as_dict()}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All parts of it; `sample` says how many users each was measured on."""

    users: int
    k: int
    seed: int
    losses: Losses
    slates: int  # wanted items in the slates, counted there
    recall: Estimate
    possible: float  # the most that slates of k can hold of what is wanted, whatever the funnel
    precision_at_1: Estimate
    stages: tuple[StageReport, ...]
    verdict: Verdict | None
    nominators: Mapping[str, Worth]
    knobs: tuple[Knob, ...]
    rules: tuple[Knob, ...]
    shift: Mapping[str, Any]
    calibration: Mapping[str, Any]
    segments: list[dict[str, Any]]
    sample: Mapping[str, int]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, the same ones for the same seed."""
        verdict = {"answer": None, "why": NO_SCORER} if self.verdict is None else self.verdict.as_dict()
        return {
            "users": self.users,
            "wanted": int(self.losses.alive[0]),
            "returned": int(self.losses.alive[-1]),
            "k": self.k,
            "seed": self.seed,
            "recall": self.recall.as_dict(),
            "possible": self.possible,
            "precision_at_1": self.precision_at_1.as_dict(),
            "stages": [one.as_dict() for one in self.stages],
            "identity": identity(self.losses, self.slates),
            "verdict": verdict,
            "nominators": {name: one.as_dict() for name, one in self.nominators.items()},
            "knobs": [one.as_dict() for one in self.knobs],
            "rules": [one.as_dict() for one in self.rules],
            "shift": dict(self.shift),
            "calibration": dict(self.calibration),
            "segments": self.segments,
            "sample": dict(self.sample),
            "warnings": list(self.warnings),
        }


NO_SCORER = "The pipeline has no scorer, so there is no choice among all items to compare with."


def diagnose(
    system: Recommender | Stage,
    cases: HeldOut,
    learned: Interactions,
    catalog: Catalog,
    *,
    users: int | None = None,
    k: int | None = None,
    seed: int = 0,
    rehearsed: Mapping[str, Sample] | None = None,
    progress: Progress = silent,
) -> Diagnosis:
    """Follow what held-out cases want through a pipeline, and measure what each stage and each knob is worth.

    `learned` is what the pipeline was trained on, `rehearsed` the candidates its scorers learned from, where a bundle
    keeps them. At most `users` users are asked, drawn by lot; slates have `k` items, or as many as the pipeline says.
    """
    given_as = as_pipeline(system.pipeline if isinstance(system, Recommender) else system)
    pipeline = offline(given_as)
    n_items = len(system.catalog) if isinstance(system, Recommender) else len(catalog)
    size = slate_size(pipeline) or SLATE if k is None else k
    sized = resized(pipeline, size)
    everyone = panel(cases, n_items, USERS if users is None else users, seed)
    few = panel(everyone.cases, n_items, TURNED, seed)
    flat = panel(everyone.cases, n_items, max(FEWEST, min(TURNED, SCORES // max(n_items, 1))), seed)
    followed = follow(sized, everyone)
    again = followed if len(few) == len(everyone) else follow(sized, few)
    base = again.returned(len(few))
    given = served(sized, everyone, progress)
    return Diagnosis(
        everyone.n_users,
        size,
        seed,
        decompose(followed.trace),
        int(followed.slate.sum()),
        everyone.share(followed.returned(len(everyone))),
        float(np.minimum(everyone.wanted, size).sum() / max(everyone.wanted.sum(), 1)),
        everyone.mean(followed.first.astype(np.int64)),
        _stages(sized, everyone, followed),
        compare_to_flat(sized, flat),
        attribution(sized, few, again),
        knobs(sized, few, base, progress),
        rules(sized, few, base, progress),
        shifts(given, rehearsed or {}, learned.popularity, catalog, seed),
        {name: _calibrated(one, seed) for name, one in given.items()},
        by_segment(
            followed.trace,
            Pairs.of(everyone.cases),
            learned,
            catalog,
            seed,
            (everyone.cases.users, followed.first),
        ),
        {"stages": everyone.n_users, "knobs": few.n_users, "verdict": flat.n_users},
        _warnings(given_as, everyone, followed, k),
    )


def identity(losses: Losses, back: int) -> dict[str, Any]:
    """That nothing is unaccounted for: wanted = lost + what is in the slates, and the product form agrees."""
    wanted = int(losses.alive[0])
    lost = int(losses.first_losses.sum())
    apart = 0.0 if losses.error is None else abs(losses.error - (losses.product_error or 0.0))
    return {
        "wanted": wanted,
        "lost": lost,
        "returned": back,
        "exact": wanted == lost + back,
        "product_error": apart,
    }


def _stages(pipeline: Pipeline, one: UserSample, followed: Followed) -> tuple[StageReport, ...]:
    losses = decompose(followed.trace)
    if not losses.alive[0]:
        raise DataError(
            "diagnose: expected cases that want something, got none that does; choose another split"
        )
    alive, lost = losses.alive.tolist(), losses.first_losses.tolist()
    intervals, ifs = losses.intervals(one.seed), what_if(pipeline, one, followed)
    return tuple(
        StageReport(
            seat.name,
            seat.kind,
            alive[place],
            alive[place + 1],
            lost[place],
            int(followed.removed[:, place].sum()),
            int(followed.no_room[:, place].sum()),
            intervals[place],
            losses.conditional[place],
            float(followed.kept[:, place].mean()),
            int(followed.short[:, place].sum()),
            seat.ordered_by,
            ifs[place],
        )
        for place, seat in enumerate(followed.seats)
    )


def _calibrated(one: Served, seed: int) -> dict[str, Any]:
    try:
        return calibration(one, seed).as_dict()
    except DataError as error:
        return {"why": str(error)}


def _warnings(pipeline: Pipeline, one: UserSample, followed: Followed, k: int | None) -> tuple[str, ...]:
    """What a reader must know before believing the numbers."""
    said = []
    if one.n_users < FEWEST:
        said.append(
            f"{counted(one.n_users, 'user is', 'users are')} too few for intervals, which need {FEWEST}: every number "
            "is of this sample alone."
        )
    if k is None and slate_size(pipeline) is None:
        said.append(f"The pipeline does not say how many items it returns; slates of {SLATE} are assumed.")
    if late := hurried(pipeline):
        said.append(
            f"Time limits are not in force here, where many requests are asked at once: {', '.join(late)}. What single "
            "requests take is measured with a budget."
        )
    if followed.seats[0].kind == CATALOGUE:
        outside = int((~followed.trace.alive[:, 0]).sum())
        said.append(
            f"{counted(outside, 'wanted item lies', 'wanted items lie')} outside the catalogue: no stage can "
            "return what is not in it."
        )
    said += [
        f"{note.stage}: {note.what}, {counted(note.count, 'time')}: {note.detail}" for note in followed.notes
    ]
    return tuple(said)
