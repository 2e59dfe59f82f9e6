"""Who learned what while an experiment ran."""

import pytest

from shortlist.train.registry import MODEL_TRAINERS


def watch_lessons(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the trainers that are asked to teach from here on."""
    taught: list[str] = []
    for kind in set(MODEL_TRAINERS.values()):

        def learn(self, *given, teach=kind.learn, **named):
            taught.append(type(self).__name__)
            return teach(self, *given, **named)

        monkeypatch.setattr(kind, "learn", learn)
    return taught
