"""The result of a diagnosis: one typed tree that findings, pages and terminal tables read by field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from shortlist.diagnose.calibration import Calibration
from shortlist.diagnose.coverage import Coverage
from shortlist.diagnose.findings.summary import plain_text
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.knobs.budget import BudgetReport
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.nominators.report import NominationReport
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.segments import Segment
from shortlist.diagnose.shift import Shift
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis
from shortlist.diagnose.what_if import WhatIf
from shortlist.evaluate.funnel import FunnelMetrics
from shortlist.evaluate.headline import Headline, part_name
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import About


@dataclass(frozen=True)
class StageReport:
    """One stage: the relevant items that entered it, where they went, and what a perfect stage would bring.

    entered = survived + lost; lost = avoidable + unavoidable. An item is lost unavoidably if its user has more relevant
    items than the slate has places, so that keeping it would not have put it there. A selector that keeps the best by
    score, and a cut after a filter, do not decide the order: `by_order` counts what the scores of `ordered_by` lose.
    """

    name: str
    kind: str
    entered: int
    survived: int
    lost: int
    removed: int  # of the lost, those a filter removed
    avoidable: int
    unavoidable: int
    share: Estimate  # lost, of all relevant items
    conditional: float | None  # lost, of those that entered
    candidates: float  # per request, after the stage
    underfilled: int  # requests in which it passed on fewer candidates than its capacity
    ordered_by: str | None  # the stage whose scores decide what a cut here keeps
    what_if: WhatIf
    by_order: int = 0  # of the avoidable, those decided by the order of `ordered_by`


@dataclass(frozen=True)
class NominatorReport:
    """Relevant items a nominator nominated, those only it nominated, and the change of recall without it.

    Without the only nominator of a pipeline recall is 0.
    """

    nominated: int
    unique: int
    without: Estimate


@dataclass(frozen=True)
class Balance:
    """That nothing is unaccounted for: relevant = lost + returned, and the product of the rates agrees."""

    relevant: int
    lost: int
    returned: int  # relevant items counted in the slates
    exact: bool
    product_error: float  # distance between the error by sums and by the product of survival rates


@dataclass(frozen=True)
class SampledUsers:
    """Which held-out users were measured, and how many for which part."""

    on: str  # "valid" or "test"; "" for requests chosen by the caller
    held_out: int  # users in that part of the split
    stages: int  # losses, oracles, nominators, segments, shift and calibration
    knobs: int  # knobs, and slates without a nominator
    full_catalog: int  # the verdict
    seed: int

    @property
    def part(self) -> str:
        """The part of the split in words."""
        return part_name(self.on)


@dataclass(frozen=True)
class Finding:
    """One thing to know and what to do about it."""

    stage: str
    what: str
    why: str
    knob: str
    gain: Estimate | None = None  # the best that was measured, in recall; None where nothing was
    share: float = 0.0  # avoidable losses it decides, of all relevant items; 0 where it is not a loss
    setting: str = ""  # the setting that gained most, or lost least; empty where none was measured
    advised: bool = False  # whether the setting is advice: the whole interval of its gain lies above 0

    @property
    def text(self) -> str:
        """The finding in sentences: what, why, and the knob."""
        return " ".join(part for part in (self.what, self.why, self.knob) if part)


@dataclass(frozen=True)
class Diagnosis:
    """Which stage of a pipeline loses relevant items, how certain that is, and what changing it would bring.

    Recall is the mean over users of each user's recall, here and in all gains. Losses of stages count items.
    """

    pipeline: str
    users: int
    k: int
    seed: int
    relevant: int
    returned: int
    recall: Estimate
    max_recall: float  # mean over users of the most that a slate of k can hold
    precision_at_1: Estimate
    stages: tuple[StageReport, ...]
    balance: Balance
    verdict: Verdict | NotMeasured
    nominators: Mapping[str, NominatorReport]
    knobs: tuple[KnobResult, ...]
    filters: tuple[KnobResult, ...]  # every filter left out in turn
    shift: Mapping[str, Shift | NotMeasured]
    calibration: Mapping[str, Calibration | NotMeasured]
    segments: tuple[Segment, ...]
    coverage: Coverage
    sample: SampledUsers
    warnings: tuple[str, ...]
    trees: Mapping[str, TreeDiagnosis] = field(default_factory=dict)
    headline: Headline | None = None  # on all held-out users, as in `evaluate`; None for a bare pipeline
    budget: BudgetReport | None = None
    dependents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by stage: those that need it
    about: About = field(default_factory=About)
    findings: tuple[Finding, ...] = ()
    nomination: NominationReport | None = None  # None for an example that was not run
    funnel: FunnelMetrics | None = None  # on the sampled users; None for an example that was not run
    seconds: float | None = None

    @cached_property
    def decided(self) -> Mapping[str, int]:
        """By stage, the avoidable losses that its choice, its rule or its order decides, also in later cuts.

        Their sum is that of all avoidable losses. Negative: the stage keeps more relevant items than the order before.
        """
        own = {stage.name: stage.avoidable - stage.by_order for stage in self.stages}
        for stage in self.stages:
            if stage.by_order and stage.ordered_by is not None:
                own[stage.ordered_by] += stage.by_order
        return own

    @property
    def largest_loss(self) -> StageReport | None:
        """The stage that decides the most avoidable losses, None where no stage has any."""
        worst = max(self.stages, key=lambda stage: self.decided[stage.name], default=None)
        return worst if worst is not None and self.decided[worst.name] > 0 else None

    def __str__(self) -> str:
        return plain_text(self)
