"""SumPooling, taught to foretell every event of every user from the ones before it."""

from dataclasses import dataclass
from typing import ClassVar

from shortlist.models.sequence.sum_pooling import SumPooling, SumPoolingConfig
from shortlist.train.models.sequence import SequenceTrainer


@dataclass(frozen=True)
class SumPoolingTrainer(SequenceTrainer):
    """What can be told from a history without its order."""

    title: ClassVar[str] = "sum-pooling"

    width: int = 64
    hidden: int = 128
    dropout: float = 0.2

    def model(self, n_items: int) -> SumPooling:
        return SumPooling(SumPoolingConfig(n_items, self.max_history, self.width, self.hidden, self.dropout))
