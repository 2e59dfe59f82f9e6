"""YouTubeDNN, taught to foretell every event of every user from the ones before it."""

from dataclasses import dataclass
from typing import ClassVar

from shortlist.models.sequence.youtube_dnn import YouTubeDNN, YouTubeDNNConfig
from shortlist.train.models.sequence import SequenceTrainer


@dataclass(frozen=True)
class YouTubeDNNTrainer(SequenceTrainer):
    """A tower over the mean of the history; as published it learns by a sampled softmax."""

    title: ClassVar[str] = "youtube-dnn"

    loss: str = "sampled"
    negatives: int = 1000
    width: int = 64
    layers: tuple[int, ...] = (256, 128)
    dropout: float = 0.2

    def model(self, n_items: int) -> YouTubeDNN:
        return YouTubeDNN(YouTubeDNNConfig(n_items, self.max_history, self.width, self.layers, self.dropout))
