"""GRU4Rec, taught to foretell every event of every user from the ones before it."""

from dataclasses import dataclass
from typing import ClassVar

from shortlist.models.sequence.gru4rec import GRU4Rec, GRU4RecConfig
from shortlist.train.models.sequence import SequenceTrainer


@dataclass(frozen=True)
class GRU4RecTrainer(SequenceTrainer):
    """A recurrent network that learns as the transformers do."""

    title: ClassVar[str] = "gru4rec"

    width: int = 64
    hidden: int = 128
    layers: int = 1
    dropout: float = 0.2

    def model(self, n_items: int) -> GRU4Rec:
        sizes = (self.max_history, self.width, self.hidden, self.layers, self.dropout)
        return GRU4Rec(GRU4RecConfig(n_items, *sizes))
