"""Table 7 of the DTR paper: seconds of 1,000 training steps for every method, and what rectified labels add.

Speed does not depend on the content of the events: they are random, in the size of the paper's Movie data. Labels are
recomputed after every update, so 1,000 steps include as many recomputations as updates; `every step` is the cost of
estimating probabilities for each batch, as the authors do. On an H200 it takes about 60 s.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from shortlist.data import Interactions
from shortlist.index.tree import TreeShape
from shortlist.lab.experiments.trees.catalogs import catalogues
from shortlist.lab.experiments.trees.tree_speed import random_events, seconds_of
from shortlist.lab.experiments.trees.trial import FULL
from shortlist.lab.result import Claim, Result, at_most, claim, result, row, start
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.progress import Progress, silent
from shortlist.train.tree.instances import Instances
from shortlist.train.tree.plan import TreePlan, plan_of
from shortlist.train.tree.rectify import first_true_level, rectified
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet

SOURCE = "DTR paper, table 7"
METHODS = ("din", "plt", "tdm", "jtm", "otm", "dtr-u", "dtr-t")
RECTIFIED = "dtr-t-rl"
SHARE = 0.2396  # of the time goes into estimates at most, by section 6.4 of the paper
Times = Mapping[str, Sequence[float]]


def dtr_table7(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0,), progress: Progress = silent
) -> Result:
    """One value per repeat, all with the first seed."""
    began, seed, quick = start(), seeds[0], profile != "full"
    items = next(iter(catalogues(profile, "dtr-table7").values()))
    events = random_events(items, 30 if quick else 4000, seed)
    sizes: dict[str, Any] = (
        {"batch_size": 16, "repeats": 2, "windows": (4, 2, 1, 1), "negatives": 8, "beam": 10} if quick else {}
    )
    trainings = _Trainings(events, seed, **sizes)
    times: dict[str, list[float]] = {}
    for done, method in enumerate(METHODS, start=1):
        times[method] = trainings.seconds(method)
        progress("trainings", done, len(METHODS))
    labels = trainings.label_seconds()
    times[RECTIFIED] = [one + labels["by update"] for one in times["dtr-t"]]
    shares = {way: took / (took + statistics.median(times["dtr-t"])) for way, took in labels.items()}
    rows = [row(method, "seconds of 1,000 steps", took) for method, took in times.items()]
    rows += [row(RECTIFIED, f"share of labels, {way}", [share]) for way, share in shares.items()]
    claims = [] if quick else _claims(times, shares)
    settings = {method: asdict(trainings.plan(method)) for method in METHODS}
    return result("dtr-table7", profile, [seed], began, rows, claims, settings=settings)


class _Trainings:
    """Trainings on the same events, a few steps each."""

    def __init__(
        self,
        events: Interactions,
        seed: int,
        batch_size: int = 1000,
        repeats: int = 15,
        negatives: int = 70,
        **overrides: Any,
    ) -> None:
        self.events, self.seed, self.batch_size, self.repeats = events, seed, batch_size, repeats
        self.negatives, self.overrides = negatives, overrides

    def seconds(self, method: str) -> list[float]:
        """Seconds of 1,000 steps, from each of some single steps."""
        training = self._training(method)
        took = seconds_of(lambda: training.run(training.state.step + 1), self.repeats)
        return [1000 * one for one in took]

    def label_seconds(self) -> dict[str, float]:
        """Seconds that rectified labels add to 1,000 steps: computed after every update, or in every step."""
        training = self._training("dtr-t")
        config = SASRecConfig(self.events.n_items, max_history=training.instances.max_history)
        model = SASRec(config).to(training.device).eval()
        tree, instances = training.state.index.tree, training.instances
        rows = torch.arange(self.batch_size, device=training.device) % len(instances)
        half = torch.autocast(training.device.type, torch.bfloat16, enabled=training.device.type == "cuda")
        with torch.no_grad(), half:
            whole = seconds_of(lambda: rectified(tree, instances, model.scores), 1)
            single = seconds_of(lambda: _batch_labels(training, instances, model, rows), self.repeats)
        updates = 1000 / FULL["steps"]
        return {"by update": whole[0] * updates, "every step": 1000 * statistics.median(single)}

    def _training(self, method: str) -> TreeTraining:
        return TreeTraining(self.plan(method), TreeTrainingSet(self.events), self.seed)

    def plan(self, method: str) -> TreePlan:
        """The plan of a method without an end; din has as many nodes in its one level as dtr-u in all levels."""
        plan = self._plan(method)
        return replace(plan, negatives=self._nodes()) if method == "din" else plan

    def _plan(self, method: str) -> TreePlan:
        endless: dict[str, Any] = {
            "steps": 10**6,
            "eval_every": 10**7,
            "order": "random",
            "batch_size": self.batch_size,
        }
        plan = plan_of(method, **endless, **self.overrides)
        return replace(plan, negatives=min(plan.negatives, self.negatives))

    def _nodes(self) -> int:
        """Negatives of all levels that dtr-u trains."""
        plan, shape = self._plan("dtr-u"), TreeShape(self.events.n_items)
        return sum(min(plan.negatives, size - 1) for size in shape.sizes[shape.start(plan.beam) :])


def _batch_labels(training: TreeTraining, instances: Instances, model: SASRec, rows: torch.Tensor) -> object:
    """The labels of one batch."""
    scores = model.scores(instances.histories(rows))
    return first_true_level(scores, instances.targets(rows), training.state.index.tree)


def _claims(times: Times, shares: Mapping[str, float]) -> list[Claim]:
    slower = [
        ("dtr-t", "dtr-u"),
        (RECTIFIED, "dtr-t"),
        *(("otm", method) for method in ("dtr-u", "dtr-t", RECTIFIED)),
    ]
    claims = [_above(times, upper, lower) for upper, lower in slower]
    ratio = statistics.median(times["dtr-u"]) / statistics.median(times["din"])
    note = "ratio of medians between 0.8 and 1.25, for as many nodes"
    claims.append(claim("dtr-u takes as long as din", SOURCE, 0.8 <= ratio <= 1.25, ratio, note))
    text = "share of time for rectified labels, "
    return claims + [at_most(text + way, SOURCE, share, SHARE) for way, share in shares.items()]


def _above(times: Times, upper: str, lower: str) -> Claim:
    """One method takes longer than another, by the ratios of their sorted repeats."""
    ratios = [a / b for a, b in zip(sorted(times[upper]), sorted(times[lower]), strict=True)]
    note = f"ratio of seconds above 1; the interval is the range of {len(ratios)} repeats"
    name, middle = f"{upper} takes longer than {lower}", statistics.median(ratios)
    return claim(name, SOURCE, middle > 1, middle, note, [min(ratios), max(ratios)])
