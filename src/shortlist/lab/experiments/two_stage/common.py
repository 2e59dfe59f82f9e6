"""What the experiments with two stages share: a tree that retrieves, flags, and rankers that learn from them.

A trial has one data set, one split and one seed. The tree stays as chance made it and is taught shortly, as in figure 1
of the paper; the ranker is the DIN of its appendix D. Instances are a sample of all windows of training users.
"""

import hashlib
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut, Interactions, Windows, sliding
from shortlist.data.windows import gather
from shortlist.index.tree import TreeIndex, search
from shortlist.lab.experiments.trees.common import Settings, Trial
from shortlist.pipeline.about import RetrievedTargets
from shortlist.train.loop.device import device_of
from shortlist.train.rankers.retrieved import Flags, Retrieve, retrieved_flags
from shortlist.train.rankers.weights import Guard, Weights, retrieval_probability, weigh
from shortlist.train.tree.training import TreeTraining, TreeTrainingSet
from shortlist.train.tree.validation import full_histories

KS = (40, 80, 120)
MIDDLE = 80
OTHERS = 60  # negatives of an instance
CHUNK = 2000
EXCLUDE = "everything seen"  # what is never retrieved, for instances as for test users

RETRIEVER: Settings = {
    "rounds": 1,
    "steps": 600,
    "eval_every": 300,
    "update": "none",
    "order": "random",
    "levels": "all",
    "branch": 8,
    "beam": 120,
}


@dataclass(frozen=True)
class Sizes:
    """How large a trial is."""

    instances: int = 200_000
    steps: int = 300  # of an epoch
    epochs: int = 12
    patience: int = 12  # all epochs are run: the judge's few hundred users are too few to stop by
    batch_size: int = 256
    learning_rate: float = 1e-3
    folds: int = 2
    ks: tuple[int, ...] = KS
    others: int = OTHERS
    width: int = 96
    attention: tuple[int, ...] = (64, 16)
    hidden: tuple[int, ...] = (200, 80)

    @property
    def middle(self) -> int:
        return self.ks[len(self.ks) // 2]


SMALL = Sizes(1500, 6, 2, 1, 32, 3e-3, 2, (8, 16, 24), 12, 16, (8, 4), (16, 8))


@dataclass(frozen=True)
class Arm:
    """One way to teach the ranker.

    `k`: the number of retrieved items that says which instances count; 0 = all count. `subset`: as many instances as
    that, but by chance. `flags`: crossfit or in-sample. `blend`: the share of weight spread evenly. `soft`: weights by
    how likely an instance is retrieved. `negatives`: catalogue, candidates or both.
    """

    k: int = 0
    negatives: str = "catalogue"
    blend: float = 0.0
    soft: bool = False
    subset: bool = False
    flags: str = "crossfit"


@dataclass(eq=False)
class TwoStages:
    """A trial with its retriever, its flags and its rankers."""

    trial: Trial
    sizes: Sizes
    made: dict[str, Flags] = field(default_factory=dict)

    @cached_property
    def device(self) -> torch.device:
        return device_of(self.trial.device)

    @property
    def events(self) -> Interactions:
        return self.trial.split.train

    @cached_property
    def windows(self) -> Windows:
        least = int(self.trial.ground.sizes.get("min_history", 14))
        return sliding(self.events, self.max_history + 1, least)

    @cached_property
    def max_history(self) -> int:
        return sum(self.trial.plan("dtr-u", **self._plan()).windows)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The instances, in the order of events; those that ask for something that was met before are left out."""
        generator = np.random.default_rng((self.trial.seed, 5))
        most = min(len(self.windows), self.sizes.instances)
        drawn = np.sort(generator.permutation(len(self.windows))[:most]).astype(np.int64)
        again = np.concatenate([self._again(part) for part in np.array_split(drawn, max(most // CHUNK, 1))])
        return np.asarray(drawn[~again], np.int64)

    def _again(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        labels = self.windows.targets[rows].astype(np.int64)
        return np.asarray((self.seen(rows) == labels[:, None]).any(1))

    def seen(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """All that was met before some instances, also what their histories no longer hold [m, E], -1 = padding."""
        ends = self.windows.ends[rows].astype(np.int64)
        starts = self.events.starts[self.events.users[ends]].astype(np.int64)
        return gather(self.events, starts, ends, int((ends - starts).max(initial=0)))

    @cached_property
    def histories(self) -> Tensor:
        """int16 where the catalogue allows it [m, K]: they live on the device."""
        kind = torch.int16 if self.n_items < 2**15 else torch.int32
        parts = np.array_split(self.rows, max(len(self.rows) // 50_000, 1))
        return torch.cat([torch.from_numpy(self.windows.histories(one)).to(kind) for one in parts]).to(
            self.device
        )

    @cached_property
    def wanted(self) -> Tensor:
        return torch.from_numpy(self.windows.targets[self.rows].astype(np.int64)).to(self.device)

    @property
    def n_items(self) -> int:
        return len(self.trial.ground.dataset.items)

    @property
    def most(self) -> int:
        return max(self.sizes.ks)

    def _plan(self) -> Settings:
        if not self.trial.ground.quick:
            return {**RETRIEVER, "history": "item"}
        return {**RETRIEVER, "history": "item", "steps": 20, "eval_every": 20, "branch": 4, "beam": 24}

    @cached_property
    def beam(self) -> int:
        return self.trial.plan("dtr-u", **self._plan()).beam

    def tree(self, events: Interactions, seed: int) -> TreeIndex:
        """A tree taught on some events; the validation users choose its best moment."""
        plan, trial = self.trial.plan("dtr-u", **self._plan()), self.trial
        lesson = TreeTrainingSet(events, trial.ground.categories, None, trial.split.valid)
        return TreeTraining(plan, lesson, seed, trial.device, trial.progress).run()

    @cached_property
    def served(self) -> TreeIndex:
        """The tree that answers test users: it learned from all training users."""
        return self.tree(self.events, self.trial.seed)

    def flags(self, way: str) -> Flags:
        """Flags of all instances, made once."""
        if way not in self.made:
            self.made[way] = retrieved_flags(
                self.windows,
                self.rows,
                self._fit if way != "in-sample" else lambda events, part: self._asking(self.served),
                self.most,
                scheme=way,
                folds=self.sizes.folds,
                beam=self.beam,
                exclude=EXCLUDE,
                seed=self.trial.seed,
            )
        return self.made[way].check(
            most=self.most, beam=self.beam, exclude=EXCLUDE, data=self.events.fingerprint
        )

    def _fit(self, events: Interactions, part: int) -> tuple[Retrieve, str]:
        return self._asking(self.tree(events, self.trial.seed + 1000 * (part + 1)))

    def _asking(self, index: TreeIndex) -> tuple[Retrieve, str]:
        digest = hashlib.sha256()
        for value in index.scorer.state_dict().values():
            digest.update(value.detach().float().cpu().numpy().tobytes())
        digest.update(index.tree.item_of_leaf.cpu().numpy().tobytes())
        return lambda rows: self._ask(index, rows), digest.hexdigest()[:16]

    def _ask(self, index: TreeIndex, rows: NDArray[np.int64]) -> Tensor:
        found = []
        for part in np.array_split(rows, max(len(rows) // CHUNK, 1)):
            where = torch.from_numpy(np.searchsorted(self.rows, part)).to(self.device)
            seen = torch.from_numpy(self.seen(part)).long().to(self.device)
            history = self.histories[where].long()
            found.append(search(index, history, self.most, beam=self.beam, exclude=seen).items.cpu())
        return torch.cat(found)

    def candidates(self, cases: HeldOut) -> Tensor:
        """What the served tree retrieves for cases [C, most]; what was seen is left out before the cut."""
        histories = cases.query(width=self.max_history).history.to(self.device)
        seen = full_histories(cases).to(self.device)
        parts = range(0, len(cases), 500)
        found = [
            search(
                self.served, histories[at : at + 500], self.most, beam=self.beam, exclude=seen[at : at + 500]
            )
            for at in parts
        ]
        return torch.cat([one.items for one in found])

    @cached_property
    def valid(self) -> tuple[HeldOut, Tensor, Tensor]:
        """Validation cases, what is retrieved for them and what they want."""
        cases = self.trial.split.valid
        return cases, self.candidates(cases), cases.relevant().to(self.device)

    def advice(self, arm: Arm) -> RetrievedTargets:
        """What the guard says of an arm."""
        flags = self.flags(arm.flags)
        hit = flags.hit(arm.k or self.sizes.middle)
        return Guard().check(hit, self.wanted.cpu().numpy(), self.weights(arm))

    def weights(self, arm: Arm) -> Weights:
        """How much each instance counts."""
        if arm.k == 0:
            return weigh(np.ones(len(self.rows)), 1.0)
        hit = self.flags(arm.flags).hit(arm.k)
        if arm.subset:
            chosen = np.random.default_rng((self.trial.seed, 11)).permutation(len(hit))[: int(hit.sum())]
            hit = np.isin(np.arange(len(hit)), chosen)
        if not arm.soft:
            return weigh(hit, arm.blend)
        counts = np.log1p(self.events.popularity[self.wanted.cpu().numpy()])
        length = np.log1p((self.histories >= 0).sum(1).cpu().numpy())
        return weigh(retrieval_probability(hit, np.column_stack([counts, length])), arm.blend)


def settings_of(arm: Arm, sizes: Sizes) -> dict[str, Any]:
    """What an answer of an arm was made with."""
    return {**asdict(arm), **asdict(sizes), "exclude": EXCLUDE}
