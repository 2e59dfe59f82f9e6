"""Trainer of JTR: a query encoder, the embeddings of a tree's nodes and the items of its leaves, trained jointly."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.index.jtr import JTRIndex, grow, overlap, search
from shortlist.metrics.ranking import recall
from shortlist.models.model import VectorModel
from shortlist.models.sequence.model import SequenceModel
from shortlist.models.sequence.sasrec import SASRec
from shortlist.nominate.jtr import JTRNominator
from shortlist.pipeline.about import TrainingHistory
from shortlist.progress import Progress, silent
from shortlist.settings import Setting, check_fields, check_settings, setting, settings_of
from shortlist.train.context import TrainContext
from shortlist.train.fingerprint import fingerprint
from shortlist.train.jtr.loss import PathLoss, RandomIntegers
from shortlist.train.jtr.votes import leaf_votes, sequence_batches
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches, Loop
from shortlist.train.loop.losses import softmax_loss
from shortlist.train.models.sequence import SequenceTrainer

CHUNK = 500  # validation users per search
ENCODER = ("width", "blocks", "heads", "max_history", "dropout", "epochs", "batch_size", "learning_rate",
           "weight_decay", "patience", "device")  # fmt: skip
Trained = tuple[SequenceModel, JTRIndex]


@dataclass(frozen=True, init=False)
class JTRTrainer:
    """SASRec first, then a tree by k-means over its item embeddings, then `rounds` of joint training.

    `JTRTrainer(width=32, leaf=20)` takes its own settings and those of SASRec. A round trains the encoder and the
    embeddings of items and nodes. Between two rounds items move to the leaves that beam search reaches for histories
    followed by them (overlapped clustering). The round with the best validation recall is kept; without validation
    users, the last round. A refit runs the rounds up to that one, each for its best number of epochs. Weights of events
    multiply losses and votes.
    """

    memory_advice: ClassVar[str] = SequenceTrainer.memory_advice
    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True

    branch: int = setting(10, "Children of a node.", least=2, most=1e9)
    leaf: int = setting(100, "Most items of a leaf.", least=1, most=1e9)
    copies: int = setting(2, "Most leaves of an item.", least=1, most=10_000)
    rounds: int = setting(4, "Rounds of joint training.", least=1, most=10_000)
    round_epochs: int = setting(5, "Epochs of a round.", least=1, most=100_000)
    round_learning_rate: float = setting(3e-4, "Learning rate of the rounds.", least=1e-9, most=10)
    negatives: int = setting(
        50, "Random negatives of a depth with more nodes; smaller depths use all.", least=1, most=10_000_000
    )
    train_beam: int = setting(10, "Nodes in the beam that are negatives too.", least=1, most=1e9)
    vote_beam: int = setting(3, "Leaves that an event votes for.", least=1, most=1e9)
    encoder: SequenceTrainer = field(default_factory=lambda: SequenceTrainer(model=SASRec))

    def __init__(self, **settings: Any) -> None:
        check_settings(settings, self.declared(), "jtr")
        for own in settings_of(type(self)):
            object.__setattr__(self, own.name, settings.pop(own.name, own.default))
        object.__setattr__(self, "encoder", SequenceTrainer(model=SASRec).with_settings(**settings))
        check_fields(self, "jtr")

    @classmethod
    def declared(cls) -> tuple[Setting, ...]:
        """The settings of a recipe: those of SASRec, then the trainer's own."""
        encoder = {one.name: one for one in SequenceTrainer(model=SASRec).declared()}
        return (*(encoder[name] for name in ENCODER), *settings_of(cls))

    def settings(self) -> dict[str, Any]:
        """All settings as plain values."""
        encoder = self.encoder.settings()
        own = {one.name: getattr(self, one.name) for one in settings_of(type(self))}
        return {name: encoder[name] for name in ENCODER} | own

    def with_settings(self, **settings: Any) -> Self:
        """The same trainer with some settings changed."""
        return type(self)(**{**self.settings(), **settings})

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        """Refuse what the encoder cannot be trained on."""
        self.encoder.check_data({}, context)

    def memory(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes that the encoder needs; the tree needs fewer."""
        return self.encoder.memory(events, catalog)

    def size(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of the encoder."""
        return self.encoder.size(events, catalog)

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> JTRNominator:
        beam = int(settings.get("beam", JTRNominator.beam))
        name = str(settings.get("name", "jtr"))
        best = context.best_epochs.get(name)
        trainer = self if best is None else self.with_settings(epochs=best)
        device = device_of(trainer.encoder.device).type
        epochs = trainer._epochs(name, context.best_epochs)
        folder = context.checkpoint_folder(
            "jtr", trainer.settings(), epochs, beam, fingerprint(context.valid), device
        )
        (encoder, index), rounds = trainer._learned(
            context.events, context.valid, context.seed, context.progress, beam, folder, epochs
        )
        context.note(name, history_of(encoder.validation, trainer.encoder.epochs, trainer.encoder.patience))
        for number, recalls in enumerate(rounds):
            context.note(_round_name(name, number), trainer._history(recalls, number))
        return JTRNominator(encoder.cpu(), index.to("cpu"), **settings)

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        beam: int = JTRNominator.beam,
        folder: Path | None = None,
    ) -> Trained:
        """The encoder and the tree, on the training device; `beam` is that of the validation searches.

        With a `folder`, checkpoints of the encoder and of every round are written there, and the same training
        continues from them.
        """
        epochs = (self.round_epochs,) * self.rounds
        return self._learned(events, valid, seed, progress, beam, folder, epochs)[0]

    def _learned(
        self,
        events: Interactions,
        valid: HeldOut | None,
        seed: int,
        progress: Progress,
        beam: int,
        folder: Path | None,
        epochs: Sequence[int],
    ) -> tuple[Trained, list[list[float]]]:
        """Encoder and tree after rounds of so many epochs; and the recalls after every epoch, up to the best round."""
        encoder = self.encoder.learn(
            events, valid, seed, progress, folder=None if folder is None else folder / "encoder"
        )
        index = grow(encoder.vectors(), self.branch, self.leaf, seed)
        if not len(events) or index.tree.height == 0:
            return (encoder, index), []  # no events, or one leaf: nothing to train
        joint = JointModel(encoder, index)
        validate = validation_recall(encoder, valid, seed, beam)
        best, rounds, kept = joint.snapshot(), list[list[float]](), 0
        recall = validate(index) if validate else -np.inf
        for number, count in enumerate(epochs):
            if number:
                joint = self._reclustered(joint, events)
            rounds.append(self._round(joint, events, validate, (seed, number), count, progress, folder))
            value = max(rounds[-1], default=-np.inf)
            if value >= recall or validate is None:
                best, recall, kept = joint.snapshot(), value, number + 1
        return best, rounds[:kept]

    def _epochs(self, name: str, best_epochs: Mapping[str, int]) -> tuple[int, ...]:
        """The epochs of every round; in a refit the best ones of the measured run, up to its best round."""
        if name not in best_epochs:
            return (self.round_epochs,) * self.rounds
        names = (_round_name(name, number) for number in range(self.rounds))
        return tuple(best_epochs[one] for one in names if one in best_epochs)

    def _history(self, recalls: Sequence[float], number: int) -> TrainingHistory:
        """How one round went; only the last can run out of epochs, because the next round continues the others."""
        history = history_of(recalls, self.round_epochs, self.encoder.patience)
        return history if number + 1 == self.rounds else replace(history, converged=None)

    def _reclustered(self, joint: "JointModel", events: Interactions) -> "JointModel":
        """The same embeddings, items in the leaves that their events vote for."""
        index = joint.index
        # At most a third of the leaves: a vote for nearly all leaves carries no information.
        beam = max(1, min(self.vote_beam, len(index.tree.leaves) // 3))
        votes = leaf_votes(joint.encoder, index, events, beam, self.encoder.batch_size)
        tree = overlap(index.tree, votes, joint.encoder.vectors(), self.copies)
        return JointModel(joint.encoder, JTRIndex(tree, index.nodes))

    def _round(
        self,
        joint: "JointModel",
        events: Interactions,
        validate: Callable[[JTRIndex], float] | None,
        seed: tuple[int, int],
        epochs: int,
        progress: Progress,
        folder: Path | None,
    ) -> list[float]:
        """Train in place; the validation recall after every epoch, of which the best is kept."""
        encoder = self.encoder
        loop = Loop(epochs, self.round_learning_rate, encoder.weight_decay, encoder.patience)
        torch.manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        return loop.run(
            joint,
            self._batches(joint, events, seed),
            self._steps(events),
            f"jtr {seed[1] + 1}",
            progress,
            None if validate is None else lambda: validate(joint.index),
            "recall@20",
            None if folder is None else folder / f"round-{seed[1] + 1}",
        )

    def _steps(self, events: Interactions) -> int:
        """The largest number of batches in an epoch."""
        length = self.encoder.piece_length
        count = np.where(events.lengths > length, events.lengths // length + 2, events.lengths > 0).sum()
        return -(-int(count) // self.encoder.batch_size)

    def _batches(self, joint: "JointModel", events: Interactions, seed: tuple[int, int]) -> Batches:
        paths = PathLoss(joint.tree, self.negatives, self.train_beam)
        device = joint.nodes.device

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((*seed, epoch))

            def sample(count: int, below: int) -> Tensor:
                return torch.from_numpy(generator.integers(0, below, count)).to(device)

            for piece, own in sequence_batches(
                events, self.encoder.piece_length, self.encoder.batch_size, generator
            ):
                moved, weights = piece.to(device), None if own is None else own.to(device)
                yield lambda piece=moved, weights=weights: joint.loss(piece, paths, sample, weights)  # type: ignore[misc]

        return batches


def _round_name(name: str, number: int) -> str:
    """The name of a round in the training histories of a bundle."""
    return f"{name}.round-{number + 1}"


class JointModel(nn.Module):
    """An encoder and node embeddings as one module."""

    def __init__(self, encoder: SequenceModel, index: JTRIndex) -> None:
        super().__init__()
        self.encoder, self.tree = encoder, index.tree
        self.nodes = nn.Parameter(index.nodes.detach().clone())

    @property
    def index(self) -> JTRIndex:
        """The tree with the current node embeddings."""
        return JTRIndex(self.tree, self.nodes.detach())

    def snapshot(self) -> Trained:
        """Copies of the encoder and the index."""
        weights = {name: one.detach().clone() for name, one in self.encoder.state_dict().items()}
        encoder = type(self.encoder).build(self.encoder.settings(), weights)
        encoder.validation = self.encoder.validation
        return encoder.to(self.nodes.device), JTRIndex(self.tree, self.nodes.detach().clone())

    def loss(
        self, piece: Tensor, paths: PathLoss, sample: RandomIntegers, weights: Tensor | None = None
    ) -> Tensor:
        """Softmax over all items plus the path loss; pieces [B, length], -1 = padding, with weights of events."""
        exists = piece >= 0
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            queries, targets = self.encoder(piece[:, :-1])[exists], piece[exists]  # [Q, D], [Q]
            logits = queries @ self.encoder.vectors().T  # [Q, N]
        own = None if weights is None else weights[exists]  # [Q]
        in_catalog = softmax_loss(logits.float(), targets, own)
        return in_catalog + paths(queries.float(), targets, self.nodes, sample, own)


def validation_recall(
    encoder: VectorModel, valid: HeldOut | None, seed: int, beam: int, k: int = 20, most: int = 1000
) -> Callable[[JTRIndex], float] | None:
    """A function from a tree to recall@k of the current encoder on up to `most` validation users, without seen items.

    None without validation users.
    """
    if valid is None or not len(valid):
        return None
    chosen = valid.take(np.random.default_rng(seed).permutation(len(valid))[:most])
    device = encoder.vectors().device
    history = chosen.query(width=max(int(chosen.history_lengths().max()), 1)).history.to(device)
    relevant = chosen.relevant().to(device)

    @torch.no_grad()
    def validate(index: JTRIndex) -> float:
        found = [
            search(index, encoder.vectors(), encoder.users(part), k, beam, part).items
            for part in torch.split(history, CHUNK)
        ]
        return float(recall(torch.cat(found), relevant, k).nanmean())

    return validate
