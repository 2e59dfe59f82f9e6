"""Trees that differ in branches, width, instances or limits, each with its losses on training and on test users."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ArtifactError
from shortlist.index.tree import TreeIndex, TreeShape, search
from shortlist.lab.experiments.sweeps import TINY
from shortlist.lab.experiments.trees.branches import (
    BRANCHES,
    NEGATIVES,
    STAYING,
    drawn,
    equal_beam,
    even_negatives,
    nodes_scored,
)
from shortlist.lab.experiments.trees.trial import Settings, Trial
from shortlist.lab.experiments.two_stage.linear_tree import LinearPlan, Sample, Sides, teach_linear
from shortlist.lab.theory.bounds_compare import bound_terms
from shortlist.lab.theory.bounds_inputs import BoundInputs
from shortlist.lab.theory.bounds_measured import (
    Measured,
    held_out,
    rademacher_linear,
    train_test_gap,
    tree_losses,
)
from shortlist.models.nodes import norm_report
from shortlist.models.nodes.linear import LinearState
from shortlist.train.loop.device import device_of
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.training import TreeTraining, TreeTrainingSet

K = 20  # items retrieved
BEAM = 100
SHARES = (0.05, 0.2, 1.0)
WIDTHS = (8, 16, 48, 96)  # and 24
LIMITS = (0.5, 1.0, 2.0, 5.0)  # and none
MIDDLE = 8  # branches where only width or limit changes
ARMS = ("equal beam", "equal nodes", "all leaves")
LOSSES = ("ramp", "leaves", "levels", *ARMS)
CHUNK = 500  # searches at a time


@dataclass(frozen=True)
class Setting:
    """What one training differs in."""

    scorer: str = "linear"
    branch: int = MIDDLE
    width: int = 24
    share: float = 1.0
    limit: float | None = None

    @property
    def name(self) -> str:
        """In words, without what is usual."""
        parts = [self.scorer, f"{self.branch} branches"]
        parts += [f"width {self.width}"] if self.width != 24 else []
        parts += [f"{self.share:.0%} of the users"] if self.share != 1 else []
        parts += [f"vectors up to {self.limit:g}"] if self.limit is not None else []
        return ", ".join(parts)


def settings_of(quick: bool) -> list[Setting]:
    """All trainings of the experiment."""
    linear = [Setting(branch=branch, share=share) for share in reversed(SHARES) for branch in BRANCHES]
    linear += [Setting(width=width) for width in WIDTHS] + [Setting(limit=limit) for limit in LIMITS]
    return linear + [Setting("attention", branch) for branch in ((2, 8) if quick else BRANCHES)]


@dataclass(frozen=True, eq=False)
class Run:
    """The losses of one tree, and what bounds on it are made of."""

    setting: Setting
    losses: Tensor  # float32 [2, n, LOSSES], training and test
    users: Tensor  # float32 [2, n]
    counts: tuple[int, int]  # how many of n are there
    inputs: BoundInputs
    facts: Mapping[str, Any]

    def side(self, test: bool, loss: str) -> Tensor:
        """A loss of every instance of one side [n]."""
        return self.losses[int(test), : self.counts[test], LOSSES.index(loss)].double()

    def whose(self, test: bool) -> Tensor:
        """The user of every instance of one side [n]."""
        return self.users[int(test), : self.counts[test]]

    def gap(self, loss: str) -> float:
        """The test mean less the training mean."""
        return float(self.side(True, loss).mean() - self.side(False, loss).mean())

    @cached_property
    def terms(self) -> dict[str, float]:
        """Everything that might go with the gap: terms of bounds, and what they are made of alone."""
        told = {one.name: one.value for one in bound_terms(self.inputs, force=True) if one.name != "trivial"}
        alone = {
            "vectors alone": self.inputs.b0,
            "instances alone": self.inputs.n_train**-0.5,
            "nodes alone": float(self.inputs.n_nodes),
        }
        return told | alone

    def beside(self, seed: int = 0) -> Measured:
        """What is known of this tree without any theorem, of all leaves and of the ramp loss.

        The exact interval takes one instance of every test user: more of one are not independent.
        """
        _, first = np.unique(self.whose(True).numpy(), return_index=True)
        error, high = held_out(self.side(True, "all leaves")[torch.from_numpy(first)])
        train, test = ((self.side(one, "ramp"), self.whose(one)) for one in (False, True))
        return Measured(error, high, train_test_gap(*train, *test, seed), "ramp loss")


def run_of(trial: Trial, setting: Setting) -> Run:
    """A tree taught and measured in a trial, or what is kept of it."""
    sizes = _sizes(trial, setting)

    def measured() -> tuple[Tensor, dict[str, Any]]:
        began = time.perf_counter()
        sides = _sides(trial, sizes)
        index, shown = _taught(trial, setting, sizes, sides)
        short_training = time.perf_counter() - began
        samples = [
            sides.sample(sides.train, shown, sizes["instances"]),
            sides.sample(sides.test, torch.arange(len(sides.test), device=sides.device), sizes["instances"]),
        ]
        beams = _beams(index.tree.shape, sizes["beam"])
        found = _stacked([_losses(index, one, beams) for one in samples])
        facts = _facts(index, setting, samples[0], shown, sides)
        facts |= {"beams": beams, "nodes": [nodes_scored(index.tree.shape, one) for one in beams]}
        facts |= {"counts": [len(one.labels) for one in samples], "taught": short_training}
        return found, facts | {"seconds": time.perf_counter() - began}

    name = f"{trial.ground.name}/bounds-trend, {setting.name}/{trial.seed}"
    found, facts = trial.cache.get(name, measured, {**asdict(setting), **sizes})
    if found.ndim != 3 or found.shape[2] != len(LOSSES) + 1:
        raise ArtifactError(f"{trial.cache.path}: {name!r} is no run of this experiment; name another file")
    told = facts["inputs"]
    inputs = BoundInputs(**{**told, **{one: tuple(told[one]) for one in ("level_sizes", "departures")}})
    counts = (facts["counts"][0], facts["counts"][1])
    return Run(setting, found[..., :-1], found[..., -1], counts, inputs, facts)


def _sizes(trial: Trial, setting: Setting) -> Settings:
    """How long lessons are, and how much is looked at."""
    if trial.ground.quick:
        quick = trial.ground.sizes
        shown = {name: quick[name] for name in ("windows", "min_history", "beam")}
        return {**shown, "instances": 300, "steps": 25, "batch_size": 200}
    instances = 8000 if setting.scorer == "linear" else 4000
    linear = {"steps": LinearPlan.steps, "batch_size": LinearPlan.batch_size}
    usual = {"windows": TreePlan.windows, "min_history": TreePlan.min_history, "beam": BEAM}
    return {**usual, "instances": instances, **linear}


def _sides(trial: Trial, sizes: Settings) -> Sides:
    device = device_of(trial.device)
    return Sides(trial.split, sum(sizes["windows"]), sizes["min_history"], trial.seed, device)


def _taught(trial: Trial, setting: Setting, sizes: Settings, sides: Sides) -> tuple[TreeIndex, Tensor]:
    """The tree, and the instances it was shown."""
    if setting.scorer == "linear":
        shape = {name: getattr(setting, name) for name in ("branch", "width", "share", "limit")}
        lesson = {name: sizes[name] for name in ("steps", "batch_size", "windows", "min_history")}
        return teach_linear(LinearPlan(**shape, **lesson), sides)
    asked: dict[str, Any] = {**STAYING, "scorer": setting.scorer, "branch": setting.branch}
    asked |= (
        {**TINY, "batch_size": trial.ground.sizes["batch_size"]} if trial.ground.quick else {"beam": BEAM}
    )
    two = TreeShape(len(trial.ground.dataset.items), 2)
    total = drawn(two, trial.ground.few(NEGATIVES))
    asked["negatives"] = even_negatives(TreeShape(two.n, setting.branch), total)
    plan = trial.plan("dtr-u", **{**asked, "order": "random", "levels": "all", "width": setting.width})
    training = TreeTraining(
        plan, TreeTrainingSet(trial.split.train), trial.seed, trial.device, trial.progress
    )
    return training.run(), sides.shown(1.0)  # nobody chooses the best moment: the gap is that of the end


def _beams(shape: TreeShape, beam: int) -> list[int]:
    """The beams of the ways to search; all leaves last."""
    return [beam, equal_beam(shape, nodes_scored(TreeShape(shape.n, 2), beam)), shape.n]


def _losses(index: TreeIndex, sample: Sample, beams: Sequence[int]) -> Tensor:
    """Every loss of every instance, and whose it is [n, LOSSES + 1]."""
    told = tree_losses(index, sample.histories, sample.labels, K, beam=beams[0])
    missed = [_missed(index, sample, beam) for beam in beams[:2]]
    columns = [told.ramp, told.leaves, told.levels, *missed, told.error, sample.users]
    return torch.stack([one.double().cpu() for one in columns], 1).float()


def _missed(index: TreeIndex, sample: Sample, beam: int) -> Tensor:
    """1 where a search does not retrieve the item [n]."""
    parts = []
    for start in range(0, len(sample.labels), CHUNK):
        some = slice(start, start + CHUNK)
        items = search(index, sample.histories[some], K, beam=beam).items
        parts.append((items != sample.labels[some, None]).all(1))
    return torch.cat(parts)


def _stacked(sides: Sequence[Tensor]) -> Tensor:
    """Both sides as one tensor, the shorter one filled up with zeros."""
    most = max(len(one) for one in sides)
    return torch.stack([torch.nn.functional.pad(one, (0, 0, 0, most - len(one))) for one in sides])


def _facts(index: TreeIndex, setting: Setting, sample: Sample, shown: Tensor, sides: Sides) -> dict[str, Any]:
    """What bounds are made of, and what a node fits by chance on the instances that were shown."""
    linear, fixed = setting.scorer == "linear", setting.limit is not None
    norms = norm_report(index.scorer, trained_history=not linear)
    users = len(torch.unique(sides.train.starts[shown]))
    inputs = BoundInputs.of_index(index, len(shown), norms, fixed, n_users=users, k=K)
    if setting.limit is not None:
        inputs = replace(inputs, b0=setting.limit)
    if not linear:
        return {"inputs": asdict(inputs)}
    state = index.state(sample.histories, 0)
    assert isinstance(state, LinearState)
    value = rademacher_linear(state.x, inputs.b0, draws=100, seed=sides.seed).value
    return {"inputs": asdict(inputs), "by_chance": value * (len(sample.labels) / len(shown)) ** 0.5}
