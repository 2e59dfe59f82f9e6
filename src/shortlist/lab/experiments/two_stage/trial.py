"""One trial of a two-stage experiment: a tree retrieves candidates, and flags say which training targets it retrieves.

A trial has one data set, one split and one seed. The tree keeps its random order of items and is trained briefly, as
in figure 1 of the two-stage bounds paper; the ranker is the DIN of its appendix D. Training instances are a sample of
all windows of training users.
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
from shortlist.lab.experiments.trees.trial import Settings, Trial
from shortlist.lab.experiments.two_stage.later_items import LaterItems
from shortlist.pipeline.about import RetrievedTargets
from shortlist.train.loop.device import device_of
from shortlist.train.rankers.training_data.retrieved import Flags, Retrieve, retrieved_flags
from shortlist.train.rankers.training_data.weights import Guard, Weights, retrieval_probability, weigh
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.validation import full_histories

KS = (40, 80, 120)
NEGATIVES = 60  # of an instance
CHUNK = 2000
EXCLUDE = "everything seen"  # items that are never retrieved, for instances as for test users
MASKED = "all later items of the user"  # items that are never negatives of an instance

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
    """Sizes of a trial."""

    instances: int = 200_000
    steps: int = 300  # per epoch
    epochs: int = 12
    patience: int = 12  # all epochs are run: a few hundred validation users are too few for early stopping
    batch_size: int = 256
    learning_rate: float = 1e-3
    folds: int = 2
    ks: tuple[int, ...] = KS
    negatives: int = NEGATIVES
    width: int = 96
    attention: tuple[int, ...] = (64, 16)
    hidden: tuple[int, ...] = (200, 80)

    @property
    def middle(self) -> int:
        return self.ks[len(self.ks) // 2]


SMALL = Sizes(1500, 6, 2, 1, 32, 3e-3, 2, (8, 16, 24), 12, 16, (8, 4), (16, 8))


@dataclass(frozen=True)
class Arm:
    """One way to train the ranker.

    `k`: instances count whose target is among the first k retrieved items; 0 = all instances count. `subset`: as many
    instances as that, but a random subset. `flags`: crossfit or in-sample. `blend`: the share of weight spread evenly.
    `soft`: weights by the probability that an instance is retrieved. `negatives`: catalogue, candidates or both.
    """

    k: int = 0
    negatives: str = "catalogue"
    blend: float = 0.0
    soft: bool = False
    subset: bool = False
    flags: str = "crossfit"


@dataclass(eq=False)
class TwoStages:
    """A trial with its retriever, its flags and its training instances."""

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
        least = int(self.trial.data_setup.sizes.get("min_history", 14))
        return sliding(self.events, self.max_history + 1, least)

    @cached_property
    def max_history(self) -> int:
        return sum(self.trial.plan("dtr-u", **self._plan()).windows)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The instances, in the order of events; those whose target is in the history are left out."""
        generator = np.random.default_rng((self.trial.seed, 5))
        most = min(len(self.windows), self.sizes.instances)
        sampled = np.sort(generator.permutation(len(self.windows))[:most]).astype(np.int64)
        parts = np.array_split(sampled, max(most // CHUNK, 1))
        repeated = np.concatenate([self._repeated(part) for part in parts])
        return np.asarray(sampled[~repeated], np.int64)

    def _repeated(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        targets = self.windows.targets[rows].astype(np.int64)
        return np.asarray((self.seen(rows) == targets[:, None]).any(1))

    def seen(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """All items before some instances, also those before the part of the history that models read [m, E]."""
        ends = self.windows.ends[rows].astype(np.int64)
        starts = self.events.starts[self.events.users[ends]].astype(np.int64)
        return gather(self.events, starts, ends, int((ends - starts).max(initial=0)))

    @cached_property
    def histories(self) -> Tensor:
        """Histories of all instances on the device, int16 where the catalogue allows it [m, K]."""
        kind = torch.int16 if self.n_items < 2**15 else torch.int32
        parts = np.array_split(self.rows, max(len(self.rows) // 50_000, 1))
        return torch.cat([torch.from_numpy(self.windows.histories(one)).to(kind) for one in parts]).to(
            self.device
        )

    @cached_property
    def targets(self) -> Tensor:
        """The next item of every instance [m]."""
        return torch.from_numpy(self.windows.targets[self.rows].astype(np.int64)).to(self.device)

    @cached_property
    def ends(self) -> Tensor:
        """The position of every instance's target among the events [m]."""
        return torch.from_numpy(self.windows.ends[self.rows].astype(np.int64)).to(self.device)

    @cached_property
    def later(self) -> LaterItems:
        """What every user interacted with from a position on."""
        return LaterItems.of(self.events, self.device)

    @property
    def n_items(self) -> int:
        return len(self.trial.data_setup.dataset.items)

    @property
    def most(self) -> int:
        return max(self.sizes.ks)

    def _plan(self) -> Settings:
        if not self.trial.data_setup.quick:
            return {**RETRIEVER, "history": "item"}
        return {**RETRIEVER, "history": "item", "steps": 20, "eval_every": 20, "branch": 4, "beam": 24}

    def settings(self, arm: Arm) -> dict[str, Any]:
        """All settings of the training of an arm; of the two meanings of `negatives`, the number is `n_negatives`."""
        sizes = {
            "n_negatives" if name == "negatives" else name: one for name, one in asdict(self.sizes).items()
        }
        retriever = asdict(self.trial.plan("dtr-u", **self._plan()))
        return {**asdict(arm), **sizes, "exclude": EXCLUDE, "masked": MASKED, "retriever": retriever}

    @cached_property
    def beam(self) -> int:
        return self.trial.plan("dtr-u", **self._plan()).beam

    def tree(self, events: Interactions, seed: int) -> TreeIndex:
        """A tree trained on some events, with the best validation F1."""
        plan, trial = self.trial.plan("dtr-u", **self._plan()), self.trial
        training_set = TreeTrainingSet(events, trial.data_setup.categories, None, trial.split.valid)
        return TreeTraining(plan, training_set, seed, trial.device, trial.progress).run()

    @cached_property
    def retriever(self) -> TreeIndex:
        """The tree that retrieves for test users, trained on all training users."""
        return self.tree(self.events, self.trial.seed)

    def flags(self, scheme: str) -> Flags:
        """Flags of all instances, made once."""
        if scheme not in self.made:
            self.made[scheme] = retrieved_flags(
                self.windows,
                self.rows,
                self._fit
                if scheme != "in-sample"
                else lambda events, fold: self._retrieve_with(self.retriever),
                self.most,
                scheme=scheme,
                folds=self.sizes.folds,
                beam=self.beam,
                exclude=EXCLUDE,
                seed=self.trial.seed,
            )
        return self.made[scheme].check(
            most=self.most, beam=self.beam, exclude=EXCLUDE, data=self.events.fingerprint
        )

    def _fit(self, events: Interactions, fold: int) -> tuple[Retrieve, str]:
        return self._retrieve_with(self.tree(events, self.trial.seed + 1000 * (fold + 1)))

    def _retrieve_with(self, index: TreeIndex) -> tuple[Retrieve, str]:
        digest = hashlib.sha256()
        for value in index.scorer.state_dict().values():
            digest.update(value.detach().float().cpu().numpy().tobytes())
        digest.update(index.tree.item_of_leaf.cpu().numpy().tobytes())
        return lambda rows: self._retrieve(index, rows), digest.hexdigest()[:16]

    def _retrieve(self, index: TreeIndex, rows: NDArray[np.int64]) -> Tensor:
        found = []
        for part in np.array_split(rows, max(len(rows) // CHUNK, 1)):
            where = torch.from_numpy(np.searchsorted(self.rows, part)).to(self.device)
            seen = torch.from_numpy(self.seen(part)).long().to(self.device)
            history = self.histories[where].long()
            found.append(search(index, history, self.most, beam=self.beam, exclude=seen).items.cpu())
        return torch.cat(found)

    def candidates(self, held_out: HeldOut) -> Tensor:
        """Retrieved items of held-out users [C, most]; items of the history are excluded before the cut."""
        histories = held_out.query(width=self.max_history).history.to(self.device)
        seen = full_histories(held_out).to(self.device)
        parts = [slice(at, at + 500) for at in range(0, len(held_out), 500)]
        found = [
            search(self.retriever, histories[part], self.most, beam=self.beam, exclude=seen[part])
            for part in parts
        ]
        return torch.cat([one.items for one in found])

    @cached_property
    def valid(self) -> tuple[HeldOut, Tensor, Tensor]:
        """Validation users, their candidates and their relevant items."""
        held_out = self.trial.split.valid
        return held_out, self.candidates(held_out), held_out.relevant().to(self.device)

    def guard(self, arm: Arm) -> RetrievedTargets:
        """Whether training on the retrieved targets of an arm is safe."""
        flags = self.flags(arm.flags)
        hit = flags.hit(arm.k or self.sizes.middle)
        return Guard().check(hit, self.targets.cpu().numpy(), self.weights(arm))

    def weights(self, arm: Arm) -> Weights:
        """The weight of every instance."""
        if arm.k == 0:
            return weigh(np.ones(len(self.rows)), 1.0)
        hit = self.flags(arm.flags).hit(arm.k)
        if arm.subset:
            chosen = np.random.default_rng((self.trial.seed, 11)).permutation(len(hit))[: int(hit.sum())]
            hit = np.isin(np.arange(len(hit)), chosen)
        if not arm.soft:
            return weigh(hit, arm.blend)
        counts = np.log1p(self.events.popularity[self.targets.cpu().numpy()])
        length = np.log1p((self.histories >= 0).sum(1).cpu().numpy())
        return weigh(retrieval_probability(hit, np.column_stack([counts, length])), arm.blend)
