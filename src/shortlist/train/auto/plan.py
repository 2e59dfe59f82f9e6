"""The pipeline that `auto` composes for a log, with the reason of every choice."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shortlist.data import Dataset, Split, open_dataset
from shortlist.errors import ConfigError
from shortlist.pipeline import Recipe, to_toml
from shortlist.pipeline.plan_report import PlanReport
from shortlist.progress import Progress, silent
from shortlist.train.auto.compose import Composer
from shortlist.train.auto.estimates import Meter
from shortlist.train.auto.log_profile import LogProfile, log_profile
from shortlist.train.preparation.split_of import check_protocol, split_of

MINUTES = 10.0


@dataclass(frozen=True)
class Plan:
    """A recipe for one log, why each part is in it, what was left out, and the estimated seconds."""

    recipe: Recipe
    profile: LogProfile
    minutes: float = MINUTES
    reasons: Mapping[str, str] = field(default_factory=dict)  # by key of the recipe, like "stages.ease.type"
    left_out: Mapping[str, str] = field(default_factory=dict)  # by stage
    estimates: Mapping[str, float] = field(default_factory=dict)  # by stage: seconds in the whole training
    seconds: float = 0.0  # that planning took
    measured: int | None = None  # held-out requests of each part at most; None: all

    def sampled(self, split: Split) -> Split:
        """The split with the requests that are measured."""
        return split if self.measured is None else split.sampled(self.measured)

    @property
    def toml(self) -> str:
        """The recipe as TOML, with a comment on every line that was chosen, and what was left out at the end."""
        lines, table = [], ""
        for line in to_toml(self.recipe).splitlines():
            header, key = re.match(r"\[(.+)\]", line), re.match(r"(\w+) = ", line)
            table = header[1] if header else table
            reason = self.reasons.get(f"{table}.{key[1]}".lstrip(".")) if key else None
            lines.append(f"{line}  # {reason}" if reason else line)
        left_out = [f"# left out: {name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([*lines, *([""] if left_out else []), *left_out]) + "\n"

    @property
    def report(self) -> PlanReport:
        """What a bundle records of a plan."""
        return PlanReport(self.minutes, dict(self.reasons), dict(self.left_out))


def plan(
    data: Dataset | Path | str,
    *,
    minutes: float = MINUTES,
    protocol: str | None = None,
    seed: int = 0,
    refit: bool = True,
    progress: Progress = silent,
) -> Plan:
    """The pipeline that `train` composes for a data set and a time budget in minutes.

    The budget covers the whole training, estimated from short runs on this log and machine. `protocol` replaces the
    split of the data set. Without `refit` the measured pipeline is served, so there is more time for it.
    """
    check_protocol(protocol)
    dataset = open_dataset(data)
    return plan_for(dataset, split_of(dataset, protocol)[0], minutes, seed, refit, progress)


def plan_for(
    dataset: Dataset,
    split: Split,
    minutes: float = MINUTES,
    seed: int = 0,
    refit: bool = True,
    progress: Progress = silent,
) -> Plan:
    """The plan for a split."""
    check_minutes(minutes)
    began = time.perf_counter()
    profile = log_profile(dataset, split)
    progress("plan", 0, 1)
    settings, seconds = split.settings, minutes * 60
    meter = Meter(split.train, dataset.catalog, settings, seed, log_clock=dataset.clock, budget=seconds)
    composed = Composer(profile, meter, seconds, refit).composed()
    progress("plan", 1, 1)
    facts = (
        composed.reasons,
        composed.left_out,
        composed.seconds,
        time.perf_counter() - began,
        composed.measured,
    )
    return Plan(composed.recipe(), profile, minutes, *facts)


def check_minutes(minutes: float) -> None:
    """Refuse a time budget that is no positive number."""
    if not 0 < minutes < float("inf"):
        raise ConfigError(f"--minutes must be a positive number, got {minutes!r}")
