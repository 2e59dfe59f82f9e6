"""Counts the epochs that trainers really begin."""

from collections import Counter


class CountedEpochs:
    """A display of progress that counts the epochs of every task."""

    def __init__(self) -> None:
        self.of = Counter[str]()

    def __call__(self, task: str, done: int, total: int) -> None: ...

    def note(self, task: str, text: str) -> None:
        assert text.startswith("epoch ")
        self.of[task] += 1
