"""Which trainers are called while an experiment runs."""

import pytest

from shortlist.lab.experiments.models.popular_window import PopularWindowTrainer
from shortlist.train.registry import MODEL_TRAINERS


def record_training(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the trainers that are called from here on."""
    called: list[str] = []
    originals = {kind: kind.learn for kind in {*MODEL_TRAINERS.values(), PopularWindowTrainer}}
    for kind, original in originals.items():

        def learn(self, *arguments, original=original, **named):
            called.append(type(self).__name__)
            return original(self, *arguments, **named)

        monkeypatch.setattr(kind, "learn", learn)
    return called
