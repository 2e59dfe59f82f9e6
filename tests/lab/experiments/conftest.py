"""A cache that several experiments share, as in a long session."""

from pathlib import Path

import pytest

from shortlist.lab.experiments.trees.trial import DataSetup, Trial, data_setups


@pytest.fixture(scope="session")
def cache_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache") / "answers.safetensors"


@pytest.fixture(scope="session")
def data_setup() -> DataSetup:
    return data_setups(["ml-1m"], None, "quick", "test")[0]


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be trained from here on."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained although the answer is cached")

    monkeypatch.setattr(Trial, "train", refuse)
    monkeypatch.setattr(Trial, "_score_block", refuse)
