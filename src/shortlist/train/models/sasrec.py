"""SASRec, taught to foretell every event of every user from the ones before it."""

from dataclasses import dataclass
from typing import ClassVar

from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.train.models.sequence import SequenceTrainer


@dataclass(frozen=True)
class SASRecTrainer(SequenceTrainer):
    """A causal transformer; with softmax over the whole catalogue it is the model to beat."""

    title: ClassVar[str] = "sasrec"

    width: int = 64
    blocks: int = 2
    heads: int = 2
    dropout: float = 0.2

    def config(self, n_items: int) -> SASRecConfig:
        """The sizes of the model."""
        return SASRecConfig(n_items, self.max_history, self.width, self.blocks, self.heads, self.dropout)

    def model(self, n_items: int) -> SASRec:
        return SASRec(self.config(n_items))
