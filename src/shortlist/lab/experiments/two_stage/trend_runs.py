"""Trees that differ in branches, width, instances or norm limits, with their losses on training and on test users."""

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
    FIXED,
    NEGATIVES,
    equal_beam,
    even_negatives,
    nodes_scored,
    total_negatives,
)
from shortlist.lab.experiments.trees.trial import Settings, Trial
from shortlist.lab.experiments.two_stage.linear_tree import LinearPlan, Sample, TrainTest, train_linear
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
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet

K = 20  # items retrieved
BEAM = 100
SHARES = (0.05, 0.2, 1.0)
WIDTHS = (8, 16, 48, 96)  # and 24
LIMITS = (0.5, 1.0, 2.0, 5.0)  # and none
MIDDLE = 8  # branches where only width or limit changes
ARMS = ("equal beam", "equal nodes", "all leaves")
LOSSES = ("ramp", "leaves", "levels", *ARMS)
CHUNK = 500  # users per search
RADEMACHER = "rademacher"  # fact: how well a node fits random labels


@dataclass(frozen=True)
class TreeSetting:
    """The settings that differ between trainings."""

    scorer: str = "linear"
    branch: int = MIDDLE
    width: int = 24
    share: float = 1.0
    limit: float | None = None

    @property
    def name(self) -> str:
        """A label without the default values."""
        parts = [self.scorer, f"{self.branch} branches"]
        parts += [f"width {self.width}"] if self.width != 24 else []
        parts += [f"{self.share:.0%} of the users"] if self.share != 1 else []
        parts += [f"vectors up to {self.limit:g}"] if self.limit is not None else []
        return ", ".join(parts)


def settings_of(quick: bool) -> list[TreeSetting]:
    """All trainings of the experiment."""
    linear = [TreeSetting(branch=branch, share=share) for share in reversed(SHARES) for branch in BRANCHES]
    linear += [TreeSetting(width=width) for width in WIDTHS] + [TreeSetting(limit=limit) for limit in LIMITS]
    return linear + [TreeSetting("attention", branch) for branch in ((2, 8) if quick else BRANCHES)]


@dataclass(frozen=True, eq=False)
class Run:
    """The losses of one tree, and the inputs of bounds on it."""

    setting: TreeSetting
    losses: Tensor  # float32 [2, n, LOSSES], training and test
    users: Tensor  # float32 [2, n]
    counts: tuple[int, int]  # instances of training and test
    inputs: BoundInputs
    facts: Mapping[str, Any]

    def side(self, test: bool, loss: str) -> Tensor:
        """A loss of every training or test instance [n]."""
        return self.losses[int(test), : self.counts[test], LOSSES.index(loss)].double()

    def users_of(self, test: bool) -> Tensor:
        """The user of every training or test instance [n]."""
        return self.users[int(test), : self.counts[test]]

    def gap(self, loss: str) -> float:
        """The test mean minus the training mean."""
        return float(self.side(True, loss).mean() - self.side(False, loss).mean())

    @cached_property
    def terms(self) -> dict[str, float]:
        """Quantities that might correlate with the gap: terms of bounds, and their ingredients alone."""
        bounds = {
            one.name: one.value for one in bound_terms(self.inputs, force=True) if one.name != "trivial"
        }
        alone = {
            "vectors alone": self.inputs.b0,
            "instances alone": self.inputs.n_train**-0.5,
            "nodes alone": float(self.inputs.n_nodes),
        }
        return bounds | alone

    def measured(self, seed: int = 0) -> Measured:
        """Measured errors of this tree: of all leaves, and the gap of the ramp loss.

        The exact interval uses one instance per test user, because instances of one user are not independent.
        """
        _, first = np.unique(self.users_of(True).numpy(), return_index=True)
        error, high = held_out(self.side(True, "all leaves")[torch.from_numpy(first)])
        train, test = ((self.side(one, "ramp"), self.users_of(one)) for one in (False, True))
        return Measured(error, high, train_test_gap(*train, *test, seed), "ramp loss")


def run_of(trial: Trial, setting: TreeSetting) -> Run:
    """A tree trained and measured in a trial, or its answers from the cache."""
    sizes = _sizes(trial, setting)

    def measure() -> tuple[Tensor, dict[str, Any]]:
        began = time.perf_counter()
        data = _data(trial, sizes)
        index, rows = _trained(trial, setting, sizes, data)
        training_seconds = time.perf_counter() - began
        samples = [
            data.sample(data.train, rows, sizes["instances"]),
            data.sample(data.test, torch.arange(len(data.test), device=data.device), sizes["instances"]),
        ]
        beams = _beams(index.tree.shape, sizes["beam"])
        losses = _stacked([_losses(index, one, beams) for one in samples])
        facts = _facts(index, setting, samples[0], rows, data)
        facts |= {"beams": beams, "nodes": [nodes_scored(index.tree.shape, one) for one in beams]}
        facts |= {"counts": [len(one.targets) for one in samples], "training_seconds": training_seconds}
        return losses, facts | {"seconds": time.perf_counter() - began}

    name = f"{trial.data_setup.name}/bounds-trend, {setting.name}/{trial.seed}"
    found, facts = trial.cache.get(name, measure, {**asdict(setting), **sizes})
    if found.ndim != 3 or found.shape[2] != len(LOSSES) + 1:
        raise ArtifactError(f"{trial.cache.path}: {name!r} is no run of this experiment; use another file")
    plain = facts["inputs"]
    inputs = BoundInputs(**{**plain, **{one: tuple(plain[one]) for one in ("level_sizes", "departures")}})
    counts = (facts["counts"][0], facts["counts"][1])
    return Run(setting, found[..., :-1], found[..., -1], counts, inputs, facts)


def _sizes(trial: Trial, setting: TreeSetting) -> Settings:
    """Sizes of the training and of the measurement."""
    if trial.data_setup.quick:
        quick = trial.data_setup.sizes
        tree = {name: quick[name] for name in ("windows", "min_history", "beam")}
        return {**tree, "instances": 300, "steps": 25, "batch_size": 200}
    instances = 8000 if setting.scorer == "linear" else 4000
    linear = {"steps": LinearPlan.steps, "batch_size": LinearPlan.batch_size}
    usual = {"windows": TreePlan.windows, "min_history": TreePlan.min_history, "beam": BEAM}
    return {**usual, "instances": instances, **linear}


def _data(trial: Trial, sizes: Settings) -> TrainTest:
    device = device_of(trial.device)
    return TrainTest(trial.split, sum(sizes["windows"]), sizes["min_history"], trial.seed, device)


def _trained(
    trial: Trial, setting: TreeSetting, sizes: Settings, data: TrainTest
) -> tuple[TreeIndex, Tensor]:
    """The tree and the instances it was trained on."""
    if setting.scorer == "linear":
        shape = {name: getattr(setting, name) for name in ("branch", "width", "share", "limit")}
        training = {name: sizes[name] for name in ("steps", "batch_size", "windows", "min_history")}
        return train_linear(LinearPlan(**shape, **training), data)
    overrides: dict[str, Any] = {**FIXED, "scorer": setting.scorer, "branch": setting.branch}
    small = {**TINY, "batch_size": trial.data_setup.sizes["batch_size"]}
    overrides |= small if trial.data_setup.quick else {"beam": BEAM}
    binary = TreeShape(len(trial.data_setup.dataset.items), 2)
    total = total_negatives(binary, trial.data_setup.negatives(NEGATIVES))
    overrides["negatives"] = even_negatives(TreeShape(binary.n, setting.branch), total)
    plan = trial.plan("dtr-u", **{**overrides, "order": "random", "levels": "all", "width": setting.width})
    # Without validation users: the gap is that at the end of training, not at the best validation step.
    training_set = TreeTrainingSet(trial.split.train)
    tree = TreeTraining(plan, training_set, trial.seed, trial.device, trial.progress)
    return tree.run(), data.training_rows(1.0)


def _beams(shape: TreeShape, beam: int) -> list[int]:
    """The beams of the searches; all leaves last."""
    return [beam, equal_beam(shape, nodes_scored(TreeShape(shape.n, 2), beam)), shape.n]


def _losses(index: TreeIndex, sample: Sample, beams: Sequence[int]) -> Tensor:
    """Every loss of every instance, and its user [n, LOSSES + 1]."""
    losses = tree_losses(index, sample.histories, sample.targets, K, beam=beams[0])
    missed = [_missed(index, sample, beam) for beam in beams[:2]]
    columns = [losses.ramp, losses.leaves, losses.levels, *missed, losses.error, sample.users]
    return torch.stack([one.double().cpu() for one in columns], 1).float()


def _missed(index: TreeIndex, sample: Sample, beam: int) -> Tensor:
    """1 where a search does not retrieve the target [n]."""
    parts = []
    for start in range(0, len(sample.targets), CHUNK):
        some = slice(start, start + CHUNK)
        items = search(index, sample.histories[some], K, beam=beam).items
        parts.append((items != sample.targets[some, None]).all(1))
    return torch.cat(parts)


def _stacked(sides: Sequence[Tensor]) -> Tensor:
    """Both sides as one tensor; the shorter one is padded with zeros."""
    most = max(len(one) for one in sides)
    return torch.stack([torch.nn.functional.pad(one, (0, 0, 0, most - len(one))) for one in sides])


def _facts(
    index: TreeIndex, setting: TreeSetting, sample: Sample, rows: Tensor, data: TrainTest
) -> dict[str, Any]:
    """The inputs of bounds, and how well a node fits random labels on the training instances."""
    linear, limited = setting.scorer == "linear", setting.limit is not None
    norms = norm_report(index.scorer, trained_history=not linear)
    users = len(torch.unique(data.train.starts[rows]))
    inputs = BoundInputs.of_index(index, len(rows), norms, limited, n_users=users, k=K)
    if setting.limit is not None:
        inputs = replace(inputs, b0=setting.limit)
    if not linear:
        return {"inputs": asdict(inputs)}
    state = index.state(sample.histories, 0)
    assert isinstance(state, LinearState)
    value = rademacher_linear(state.x, inputs.b0, draws=100, seed=data.seed).value
    return {"inputs": asdict(inputs), RADEMACHER: value * (len(sample.targets) / len(rows)) ** 0.5}
