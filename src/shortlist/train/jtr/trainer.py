"""JTR: a query encoder, the vectors of a tree's nodes and the contents of its leaves, learned together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError
from shortlist.index.jtr import JTRIndex, grow, overlap
from shortlist.models.sequence.model import SequenceModel
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.nominate.jtr import JTRNominator
from shortlist.progress import Progress, silent
from shortlist.train.context import TrainContext
from shortlist.train.jtr.loss import PathLoss
from shortlist.train.jtr.validation import judge_of
from shortlist.train.jtr.votes import batches_of, votes_of
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.ranges import check_ranges
from shortlist.train.models.sequence import SequenceTrainer

LEAST = {"branch": 2, "leaf": 1, "copies": 1, "round_epochs": 1, "train_beam": 1, "vote_beam": 1}
Learned = tuple[SequenceModel, JTRIndex]


@dataclass(frozen=True)
class JTRTrainer:
    """A SASRec model first, a tree by k-means over its item vectors, then `rounds` of learning both together.

    In a round the encoder, the items' and the nodes' vectors learn; between two rounds items move to the leaves that
    the queries which want them walk to (overlapped clustering). What is kept is what did best on the cases to choose
    by, searched as it will be; without cases, the last round. `epochs`, `learning_rate` and `patience` are those of SASRec,
    whose epochs are also what is told of the training.
    """

    width: int = 64
    blocks: int = 2
    heads: int = 2
    max_history: int = 69
    dropout: float = 0.2
    epochs: int = 60
    batch_size: int = 128  # pieces of sequences
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    patience: int = 5
    branch: int = 10
    leaf: int = 100  # the most items of a leaf
    copies: int = 2  # the most leaves of an item
    rounds: int = 4
    round_epochs: int = 5
    round_learning_rate: float = 3e-4
    negatives: int = 50  # drawn at a depth with more nodes than that
    train_beam: int = 10  # nodes of a depth with more that are negatives because the beam takes them
    vote_beam: int = 3  # leaves that a history votes for, with the item that came next
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError(f"jtr: {name} must be at least {least}, got {getattr(self, name)!r}")
        if not 0 < self.round_learning_rate <= 10:
            raise ConfigError(f"jtr: round_learning_rate must lie above 0 and up to 10, got {self.round_learning_rate!r}")

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> JTRNominator:
        beam = int(settings.get("beam", JTRNominator.beam))
        encoder, index = self.learn(context.events, context.valid, context.seed, context.progress, beam=beam)
        context.note(str(settings.get("name", "jtr")), history_of(encoder.validation, self.epochs, self.patience))
        return JTRNominator(encoder.cpu(), index.to("cpu"), **settings)

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        beam: int = JTRNominator.beam,
    ) -> Learned:
        """The encoder and the tree, on the device they were trained on; `beam` is what cases are searched with."""
        check_ranges(vars(self))
        encoder = self.sasrec().learn(events, valid, seed, progress)
        index = grow(encoder.vectors(), self.branch, self.leaf, seed)
        if not len(events) or index.tree.height == 0:
            return encoder, index  # nothing to learn from, or one leaf: nothing to choose
        joint = Joint(encoder, index)
        judge = judge_of(encoder, valid, seed, beam)
        best, worth = joint.learned(), judge(index) if judge else -np.inf
        for number in range(self.rounds):
            if number:
                joint = self._moved(joint, events)
            value = self._round(joint, events, judge, (seed, number), progress)
            if value >= worth or judge is None:
                best, worth = joint.learned(), value
        return best

    def sasrec(self) -> SequenceTrainer:
        """How the encoder is taught before there is a tree."""
        sizes = SASRecConfig(0, self.max_history, self.width, self.blocks, self.heads, self.dropout)
        return SequenceTrainer(
            model=SASRec,
            config=sizes,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            patience=self.patience,
            device=self.device,
        )

    def _moved(self, joint: "Joint", events: Interactions) -> "Joint":
        """The same vectors, items in the leaves where they are wanted."""
        index = joint.index
        # A third of the leaves at most: a history that votes for all of them tells nothing.
        beam = max(1, min(self.vote_beam, len(index.tree.leaves) // 3))
        votes = votes_of(joint.encoder, index, events, beam, self.batch_size)
        tree = overlap(index.tree, votes, joint.encoder.vectors(), self.copies)
        return Joint(joint.encoder, JTRIndex(tree, index.nodes))

    def _round(
        self,
        joint: "Joint",
        events: Interactions,
        judge: Callable[[JTRIndex], float] | None,
        seed: tuple[int, int],
        progress: Progress,
    ) -> float:
        """Learn in place; what the judge said of the epoch that is kept."""
        loop = Loop(self.round_epochs, self.round_learning_rate, self.weight_decay, self.patience)
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        judged = None if judge is None else lambda: judge(joint.index)
        said = loop.run(
            joint,
            self._batches(joint, events, seed),
            self._steps(events),
            f"jtr {seed[1] + 1}",
            progress,
            judged,
        )
        return max(said, default=-np.inf)

    def _steps(self, events: Interactions) -> int:
        """The most batches an epoch may have."""
        reach = self.max_history + 1
        count = np.where(events.lengths > reach, events.lengths // reach + 2, events.lengths > 0).sum()
        return -(-int(count) // self.batch_size)

    def _batches(self, joint: "Joint", events: Interactions, seed: tuple[int, int]) -> Batches:
        paths = PathLoss(joint.tree, self.negatives, self.train_beam)
        device = joint.nodes.device

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((*seed, epoch))

            def draw(count: int, below: int) -> Tensor:
                return torch.from_numpy(generator.integers(0, below, count)).to(device)

            for piece in batches_of(events, self.max_history + 1, self.batch_size, generator):
                moved = piece.to(device)
                yield lambda piece=moved: joint.loss(piece, paths, draw)  # type: ignore[misc]

        return batches


class Joint(nn.Module):
    """An encoder and the vectors of a tree's nodes, as one thing that learns."""

    def __init__(self, encoder: SequenceModel, index: JTRIndex) -> None:
        super().__init__()
        self.encoder, self.tree = encoder, index.tree
        self.nodes = nn.Parameter(index.nodes.detach().clone())

    @property
    def index(self) -> JTRIndex:
        """The tree with its vectors as they are now."""
        return JTRIndex(self.tree, self.nodes.detach())

    def learned(self) -> Learned:
        """What stays when learning goes on."""
        encoder = type(self.encoder).build(self.encoder.settings(), _kept(self.encoder))
        encoder.validation = self.encoder.validation
        return encoder.to(self.nodes.device), JTRIndex(self.tree, self.nodes.detach().clone())

    def loss(self, piece: Tensor, paths: PathLoss, draw: Callable[[int, int], Tensor]) -> Tensor:
        """Softmax over all items, and over the nodes on the way to each; pieces [B, reach], -1 = padding."""
        there = piece >= 0
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            queries, wanted = self.encoder(piece[:, :-1])[there], piece[there]  # [Q, D], [Q]
            logits = queries @ self.encoder.vectors().T  # [Q, N]
        return F.cross_entropy(logits.float(), wanted) + paths(queries.float(), wanted, self.nodes, draw)


def _kept(module: nn.Module) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in module.state_dict().items()}
