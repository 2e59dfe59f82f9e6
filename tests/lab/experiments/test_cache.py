import pytest
import torch
from safetensors.torch import save_file

from shortlist.errors import ArtifactError
from shortlist.lab.experiments.cache import AnswerCache, empty
from shortlist.pipeline.about import TrainingHistory


def answer():
    return torch.arange(6, dtype=torch.int32).view(2, 3), {"seconds": 1.5, "log": [{"step": 5, "f1": 0.25}]}


def never():
    raise AssertionError("computed although it is cached")


def test_a_cached_answer_is_not_computed_again():
    cache = AnswerCache()
    tensor, facts = cache.get("a", answer)
    again, same = cache.get("a", never)
    assert torch.equal(tensor, again)
    assert facts == same == answer()[1]


def test_a_file_returns_tensors_and_facts(tmp_path):
    path = tmp_path / "new" / "answers.safetensors"
    AnswerCache.open(path).get("ml-1m/dtr-u/0", answer)
    tensor, facts = AnswerCache.open(path).get("ml-1m/dtr-u/0", never)
    assert torch.equal(tensor, answer()[0])
    assert facts == answer()[1]


def test_an_answer_made_with_other_settings_is_refused(tmp_path):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("a", answer, {"steps": 5, "windows": (2, 1)})
    assert AnswerCache.open(path).get("a", never, {"steps": 5, "windows": (2, 1)})[1]["seconds"] == 1.5
    with pytest.raises(
        ArtifactError, match=r"answers: 'a' was cached with other settings \(steps 5, now 6\)"
    ):
        AnswerCache.open(path).get("a", never, {"steps": 6, "windows": (2, 1)})
    AnswerCache.open(path).get("b", answer)  # cached without settings
    AnswerCache.open(path).get("b", never, {"steps": 6})


def test_every_addition_is_written_at_once(tmp_path):
    path = tmp_path / "answers"
    cache = AnswerCache.open(path)
    cache.get("a", answer)
    cache.get("facts only", lambda: (empty(), {"x": 1}))
    assert set(AnswerCache.open(path).tensors) == {"a", "facts only"}
    assert [one.name for one in tmp_path.iterdir()] == ["answers"]  # no partial file is left


def test_a_view_is_cached_by_its_values(tmp_path):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("view", lambda: (answer()[0].T, {}))
    assert torch.equal(AnswerCache.open(path).get("view", never)[0], answer()[0].T)


def test_an_answer_that_fails_is_not_cached(tmp_path):
    path = tmp_path / "answers"
    with pytest.raises(AssertionError):
        AnswerCache.open(path).get("a", never)
    assert not path.exists()


@pytest.mark.parametrize("cut", [0, 5, -1])
def test_a_damaged_file_is_refused(tmp_path, cut):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("a", answer)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArtifactError, match="expected a cache of an experiment's results"):
        AnswerCache.open(path)


def test_facts_that_are_no_json_are_refused(tmp_path):
    path = tmp_path / "answers"
    save_file({"a": torch.zeros(1)}, str(path), metadata={"facts": "{not json"})
    with pytest.raises(ArtifactError, match="remove it"):
        AnswerCache.open(path)


def test_files_of_other_runs_are_merged(tmp_path):
    files = [AnswerCache.open(tmp_path / name) for name in ("one", "two", "other")]
    for file, value in zip(files, (1.0, 1.0, 2.0), strict=True):
        file.get("shared", lambda value=value: (torch.full((2,), value), {}))
    files[1].get("more", lambda: (torch.ones(1), {"seconds": 3.0}))
    files[0].merge([files[1]])
    again = AnswerCache.open(tmp_path / "one")
    assert set(again.tensors) == {"shared", "more"}
    assert again.facts["more"] == {"seconds": 3.0}
    with pytest.raises(ArtifactError, match="other: 'shared' differs from the answer cached"):
        AnswerCache.open(tmp_path / "new").merge([files[0], files[2]])
    assert not (tmp_path / "new").exists()
    assert set(AnswerCache.open(tmp_path / "one").tensors) == {"shared", "more"}


def test_settings_and_training_of_a_run_are_recorded_once_per_system(tmp_path):
    history = TrainingHistory(2, 2, 1, (0.3, 0.2), True)
    cache = AnswerCache.open(tmp_path / "answers")
    for seed in (0, 1):
        cache.get(f"world/sasrec/{seed}", lambda: (empty(), {"history": history}), {"width": 8})
    cache.get("world/popularity/0", lambda: (empty(), {}))
    assert cache.settings == {"world/sasrec": {"width": 8}}
    assert cache.training == {"world/sasrec/0": history, "world/sasrec/1": history}
    again = AnswerCache.open(tmp_path / "answers")
    assert (again.settings, again.training) == ({}, {})  # nothing was requested in this run
    again.get("world/sasrec/1", never, {"width": 8})
    assert again.training == {"world/sasrec/1": history}


def test_settings_that_differ_between_seeds_are_recorded_per_seed():
    cache = AnswerCache()
    for seed, width in ((0, 8), (1, 16)):
        cache.get(f"world/sasrec/{seed}", lambda: (empty(), {}), {"width": width})
    assert cache.settings == {"world/sasrec": {"width": 8}, "world/sasrec/1": {"width": 16}}
