"""Reads a full-stage log for training: the newest requests with positive feedback, in bounded memory."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data import Dataset
from shortlist.errors import DataError
from shortlist.feedback.join import labelled, only_rule
from shortlist.feedback.nominations import NominationLog, joined, nominations
from shortlist.feedback.reader import FOREVER, LogReader
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.progress import Progress, silent
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.objectives.from_log import (
    EXPLAINED,
    LeftOut,
    as_stage_log,
    take_requests,
    usable_requests,
)
from shortlist.train.objectives.stage_log import StageLog

FEW = 100  # requests below which training on a log alone is warned of
MAX_UNKNOWN = 0.5  # share of items outside the catalogue from which on a log belongs to another one


def read_training_log(
    root: Path | str,
    dataset: Dataset,
    stages: Sequence[str],
    most: int,
    rule: int | None = None,
    progress: Progress = silent,
    scores: bool = False,
    since: int | None = None,
) -> TrainingLog:
    """The newest `most` requests of a log with positive feedback, that a funnel with as many stages served.

    `rule` is the version of the labels; without it, the only one that `shortlist log join` has made. `scores` are kept
    for objectives that read those of the next stage. Requests before `since`, in milliseconds, are not read.
    """
    reader = LogReader(Path(root), since=-FOREVER if since is None else since, scores=scores)
    if dataset.clock != "ms":
        raise DataError(
            f"{root}: times of a log are milliseconds, but the data set {dataset.name!r} has no times; prepare data "
            "with times to train on a log"
        )
    found = _Found(dataset, len(stages), most, scores)
    rule = only_rule(reader.root) if rule is None else rule
    for number, record in enumerate(labelled(reader, rule), start=1):
        found.add(record)
        progress("read log", number, max(number, len(reader.pairs)))
    found.problems = reader.problems.explained
    found.check(reader.root, stages)
    return found.training_log(tuple(stages))


@dataclass
class _Found:
    """The newest requests so far, and counts of everything else."""

    dataset: Dataset
    n_stages: int
    most: int
    scores: bool = False
    parts: deque[tuple[StageLog, Array, NominationLog]] = field(default_factory=deque)
    sums: Counter[str] = field(default_factory=Counter)
    funnels: Counter[tuple[str, ...]] = field(default_factory=Counter)
    policies: dict[tuple[int, ...], int] = field(
        default_factory=dict
    )  # versions of all stages of a request, and the first time that they served
    problems: tuple[str, ...] = ()  # what the reader left out

    def add(self, record: LoggedRequests) -> None:
        """Keep the requests of a record that can be trained on; forget the oldest ones beyond `most`."""
        self._count(record)
        rows = record.as_rows(self.dataset.items, self.dataset.users)
        kept, counts = usable_requests(rows, self.n_stages)
        self._add_policies(kept)
        self.sums += Counter(counts)
        log = as_stage_log(kept, len(self.dataset.items), self.n_stages, self.scores)
        positives = np.flatnonzero(log.stratum > self.n_stages)
        number = np.full(log.n_rows, -1)
        number[positives] = np.arange(len(positives))
        log = replace(log, item_id=log.item_id.astype(np.int32), stage=log.stage.astype(np.int8))
        log = replace(log, nomination=number)
        positive = np.bincount(log.request, log.stratum > self.n_stages, minlength=len(kept)) > 0
        self.sums["known"] += int((log.stratum >= self.n_stages).sum())
        chosen = np.flatnonzero(positive)
        if len(chosen):
            self.parts.append((take_requests(log, chosen), kept.ts_ms[chosen], nominations(kept, positives)))
            self._forget()

    def _add_policies(self, record: LoggedRequests) -> None:
        versions, at = np.unique(record.policy_version, axis=0, return_inverse=True)
        first = np.full(len(versions), np.iinfo(np.int64).max)
        np.minimum.at(first, at.ravel(), record.ts_ms)
        for policy, time in zip(map(tuple, versions.tolist()), first.tolist(), strict=True):
            self.policies[policy] = min(time, self.policies.get(policy, time))

    def _forget(self) -> None:
        """Drop the oldest records that are not needed."""
        held = sum(len(times) for _, times, _ in self.parts)
        while held - len(self.parts[0][1]) >= self.most:
            held -= len(self.parts.popleft()[1])

    def _count(self, record: LoggedRequests) -> None:
        self.sums += Counter(requests=len(record), candidates=record.n_candidates)
        for number, count in enumerate(np.bincount(record.funnel, minlength=len(record.funnels)).tolist()):
            self.funnels[record.funnels[number].stages] += count

    def check(self, root: Path, stages: Sequence[str]) -> None:
        """Refuse a log without requests that can be trained on, with the reason."""
        sums = self.sums
        used = sums["requests"] - sums["other_stages"]
        if not sums["requests"]:
            reasons = "".join(f"; {one}" for one in self.problems)
            raise DataError(
                f"{root}: expected requests in the log, got none{reasons}; check it with: shortlist log inspect {root}"
            )
        if not used:
            served = " or ".join(" > ".join(one) for one in self.funnels)
            raise DataError(
                f"{root}: expected requests of the {len(stages)} stages {' > '.join(stages)}, got those of {served}; "
                "train the pipeline that served the requests"
            )
        if sums["unknown_item"] > MAX_UNKNOWN * sums["candidates"]:
            raise DataError(
                f"{root}: {sums['unknown_item']} of {sums['candidates']} candidates are not in the catalogue of "
                f"{self.dataset.name!r}: the log belongs to another one; give the data set of the bundle that served"
            )
        if sums["unknown_user"] == used:
            raise DataError(
                f"{root}: none of {used} requests has a user of {self.dataset.name!r}; give the data set of the bundle "
                "that served, or log user ids"
            )
        self._check_labels(root)

    def _check_labels(self, root: Path) -> None:
        if not self.sums["known"]:
            raise DataError(
                f"{root}: none of {self.sums['no_label']} served candidates has a label yet: no impression came back, "
                f"or its window is open; add feedback with: shortlist log join {root} --events FILE"
            )
        if not self.parts:
            raise DataError(
                f"{root}: no request has positive feedback; check which events are positive: shortlist log join {root} "
                "--positive EVENT"
            )

    def training_log(self, stages: tuple[str, ...]) -> TrainingLog:
        """All requests in the order of time; `stages` are those to train."""
        logs, times, picks = zip(*self.parts, strict=True)
        time = np.concatenate(times)
        order = np.argsort(time, kind="stable")[-self.most :]
        left_out = LeftOut(
            self.sums["requests"],
            self.sums["candidates"],
            self.n_stages,
            {name: self.sums[name] for name in EXPLAINED},
        )
        served = [names for names in self.funnels if len(names) == self.n_stages]
        few = f"{len(order)} requests are few: rankers are trained on these alone; train on --data until there are more"
        notes = (*([few] if len(order) < FEW else []), *self.problems, *left_out.explained)
        notes = (*notes, *self._mixed(stages, served))
        log = take_requests(_concat(_renumbered(logs, picks)), order).standardised()
        names = max(served, key=self.funnels.__getitem__)
        return TrainingLog(log, time[order], names, left_out, notes, joined(picks))

    def _mixed(self, stages: tuple[str, ...], served: list[tuple[str, ...]]) -> Iterator[str]:
        """What may mislead: other stages or other versions decided about some candidates."""
        for names in served:
            if names != stages:
                yield (
                    f"{self.funnels[names]} requests were served by {' > '.join(names)}: its stages count as those of "
                    f"{' > '.join(stages)} in the same places"
                )
        if len(self.policies) > 1:
            yield (
                f"{len(self.policies)} combinations of versions of stages served the requests: labels of dropped "
                "candidates mix them; train on the last one alone with --log-since "
                f"{max(self.policies.values())}"
            )


def _renumbered(logs: Sequence[StageLog], picks: Sequence[NominationLog]) -> list[StageLog]:
    """The logs with rows of the nominations of all of them, one after the other."""
    before = np.cumsum([0, *map(len, picks)])
    numbers = [np.asarray(one.nomination) for one in logs]
    numbers = [np.where(one >= 0, one + start, -1) for one, start in zip(numbers, before[:-1], strict=True)]
    return [replace(one, nomination=number) for one, number in zip(logs, numbers, strict=True)]


def _concat(logs: list[StageLog]) -> StageLog:
    """The requests of several logs, one after the other."""
    counts = np.concatenate([np.diff(one.offsets) for one in logs])
    columns: dict[str, Any] = {}
    for name in ("user_id", "item_id", "stage", "y", "incl_prob", "scores", "nomination"):
        parts = [getattr(one, name) for one in logs]
        columns[name] = None if any(one is None for one in parts) else np.concatenate(parts)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(logs[0], **columns, offsets=offsets)
