import lzma

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.simulate.labels import best_quality, read_eurlex, slate_quality


@pytest.fixture
def folder(tmp_path):
    """Documents whose label 0 is the most frequent, then 1; label 7 is in the test only."""
    random = np.random.default_rng(0)
    (tmp_path / "eurlex-4k").mkdir()
    for name, rows, more in (("train", 60, ""), ("test", 9, ",7")):
        lines = [f"{rows} 40 8"]
        for row in range(rows):
            labels = ",".join(map(str, range(row % 4))) + (more if row % 4 else "")
            words = sorted(random.choice(40, 6, replace=False))
            lines.append(f"{labels} " + " ".join(f"{word}:{random.random() + 0.1:.4f}" for word in words))
        with lzma.open(tmp_path / "eurlex-4k" / f"eurlex_{name}.txt.xz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    return tmp_path


def test_documents_have_dense_features_and_the_labels_after_the_most_frequent(folder):
    found = read_eurlex(folder, 2, skipped=1, width=8)
    assert found.train.features.shape == (60, 8)
    assert found.test.features.shape == (9, 8)
    assert found.train.popularity.tolist() == [0.5, 0.25]  # labels 1 and 2
    assert found.test.labels[:4].tolist() == [[False, False], [False, False], [True, False], [True, True]]
    assert np.allclose(found.train.features.mean(0), 0, atol=1e-5)
    assert np.allclose(found.train.features.std(0, correction=0), 1, atol=1e-4)


def test_features_are_fitted_on_training_documents_only(folder):
    before = read_eurlex(folder, 2, width=8).train.features
    file = folder / "eurlex-4k" / "eurlex_test.txt.xz"
    with lzma.open(file, "wt") as stream:
        stream.write("1 40 8\n0,7 1:5.0\n")
    assert np.allclose(before, read_eurlex(folder, 2, width=8).train.features)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"n_labels": 7}, "expected 1 to 6 labels"), ({"n_labels": 2, "width": 30}, "a width of 1 to 20")],
)
def test_more_labels_or_features_than_there_are_are_refused(folder, arguments, message):
    with pytest.raises(ConfigError, match=message):
        read_eurlex(folder, **arguments)


@pytest.fixture(scope="module")
def real(real_data):
    return read_eurlex(real_data, width=64)


def test_the_published_documents_have_few_frequent_labels(real):
    assert (len(real.train), len(real.test)) == (15_539, 3_809)
    assert real.train.positivity == pytest.approx(0.01724, abs=1e-5)
    assert real.train.top_share == pytest.approx(0.1304, abs=1e-4)
    assert real.test.empty == pytest.approx(0.2137, abs=1e-4)
    popular = slate_quality(real.train.popularity.expand(len(real.test), -1), real.test.labels)
    assert float(popular.precision.mean()) == pytest.approx(0.0452, abs=1e-4)
    assert float(best_quality(real.test.labels).precision.mean()) == pytest.approx(0.3369, abs=1e-4)


def test_dense_features_of_published_documents_find_labels_far_better_than_popularity(real):
    scores = torch.nn.functional.normalize(real.test.features) @ real.train.prototypes.T
    assert float(slate_quality(scores, real.test.labels).precision.mean()) > 4 * 0.0452
