import pytest
import torch
from safetensors.torch import save_file

from shortlist.errors import ArtifactError
from shortlist.lab.experiments.cache import AnswerCache, empty


def answer():
    return torch.arange(6, dtype=torch.int32).view(2, 3), {"seconds": 1.5, "told": [{"step": 5, "f1": 0.25}]}


def never():
    raise AssertionError("made although it is kept")


def test_what_is_kept_is_not_made_again():
    cache = AnswerCache()
    tensor, facts = cache.get("a", answer)
    again, same = cache.get("a", never)
    assert torch.equal(tensor, again)
    assert facts == same == answer()[1]


def test_a_file_gives_back_tensors_and_facts(tmp_path):
    path = tmp_path / "new" / "answers.safetensors"
    AnswerCache.open(path).get("ml-1m/dtr-u/0", answer)
    tensor, facts = AnswerCache.open(path).get("ml-1m/dtr-u/0", never)
    assert torch.equal(tensor, answer()[0])
    assert facts == answer()[1]


def test_an_answer_made_with_other_settings_is_refused(tmp_path):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("a", answer, {"steps": 5, "windows": (2, 1)})
    assert AnswerCache.open(path).get("a", never, {"steps": 5, "windows": (2, 1)})[1]["seconds"] == 1.5
    with pytest.raises(ArtifactError, match=r"answers: 'a' was kept with other settings \(steps 5, now 6\)"):
        AnswerCache.open(path).get("a", never, {"steps": 6, "windows": (2, 1)})
    AnswerCache.open(path).get("b", answer)  # kept before settings were
    AnswerCache.open(path).get("b", never, {"steps": 6})


def test_every_addition_is_written_at_once(tmp_path):
    path = tmp_path / "answers"
    cache = AnswerCache.open(path)
    cache.get("a", answer)
    cache.get("facts only", lambda: (empty(), {"x": 1}))
    assert set(AnswerCache.open(path).tensors) == {"a", "facts only"}
    assert [one.name for one in tmp_path.iterdir()] == ["answers"]  # nothing half-written is left


def test_a_view_is_kept_as_what_it_shows(tmp_path):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("turned", lambda: (answer()[0].T, {}))
    assert torch.equal(AnswerCache.open(path).get("turned", never)[0], answer()[0].T)


def test_an_answer_that_fails_is_not_kept(tmp_path):
    path = tmp_path / "answers"
    with pytest.raises(AssertionError):
        AnswerCache.open(path).get("a", never)
    assert not path.exists()


@pytest.mark.parametrize("cut", [0, 5, -1])
def test_a_damaged_file_is_refused(tmp_path, cut):
    path = tmp_path / "answers"
    AnswerCache.open(path).get("a", answer)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ArtifactError, match="expected answers kept by an experiment"):
        AnswerCache.open(path)


def test_facts_that_are_no_json_are_refused(tmp_path):
    path = tmp_path / "answers"
    save_file({"a": torch.zeros(1)}, str(path), metadata={"facts": "{not json"})
    with pytest.raises(ArtifactError, match="remove it"):
        AnswerCache.open(path)


def test_files_of_other_runs_are_taken_in(tmp_path):
    files = [AnswerCache.open(tmp_path / name) for name in ("one", "two", "other")]
    for file, value in zip(files, (1.0, 1.0, 2.0), strict=True):
        file.get("shared", lambda value=value: (torch.full((2,), value), {}))
    files[1].get("more", lambda: (torch.ones(1), {"seconds": 3.0}))
    files[0].take([files[1]])
    again = AnswerCache.open(tmp_path / "one")
    assert set(again.tensors) == {"shared", "more"}
    assert again.facts["more"] == {"seconds": 3.0}
    with pytest.raises(ArtifactError, match="other: 'shared' is not what was kept"):
        AnswerCache.open(tmp_path / "new").take([files[0], files[2]])
    assert not (tmp_path / "new").exists()
    assert set(AnswerCache.open(tmp_path / "one").tensors) == {"shared", "more"}
