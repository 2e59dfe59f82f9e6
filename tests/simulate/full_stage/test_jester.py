"""Jester's fully observed block."""

import zipfile

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.simulate.full_stage.live_funnel import live_funnel, shown_utility
from shortlist.simulate.full_stage.ratings.jester import JesterWorld, jester_world


def lines(*ratings):
    return "".join(f"{sum(one != 99 for one in row)},{','.join(map(str, row))}\n" for row in ratings)


@pytest.fixture
def folder(tmp_path):
    text = lines([10.0] * 50 + [-10.0] * 50, [99] * 100, [0] * 99 + [99], [5.0] * 100)
    (tmp_path / "jester-data-1.csv").write_text(text)
    return tmp_path


def test_only_users_who_rated_every_joke_are_in_the_world(folder) -> None:
    world = jester_world(folder)
    assert (world.n_users, world.n_items) == (2, 100)
    assert world.r(np.array([0, 1]), np.array([0, 99])).tolist() == [[1.0, 0.0], [0.75, 0.75]]


def test_zip_and_folder_give_the_same_world(folder, tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "jester-data-1.zip", "w") as archive:
        archive.write(folder / "jester-data-1.csv", "jester-data-1.csv")
    (folder / "jester-data-1.csv").unlink()
    for path in (tmp_path, tmp_path / "jester-data-1.zip"):
        assert jester_world(path).n_users == 2


def test_labels_are_fixed_and_follow_the_utilities() -> None:
    world = JesterWorld(np.random.default_rng(0).random((400, 100)).astype(np.float32), seed=3)
    users, items = np.arange(400), np.arange(100)
    labels = world.labels(users, items)
    assert (labels[5:6, 7:9] == world.labels(np.array([5]), np.array([[7, 8]]))).all()
    high = world.utilities > 0.8
    assert abs(labels[high].mean() - world.utilities[high].mean()) < 0.02


def test_damaged_tables_are_errors_with_file_and_line(folder) -> None:
    path = folder / "jester-data-1.csv"
    path.write_text(lines([1] * 100) + lines([11] * 100))
    with pytest.raises(DataError, match=r"csv:2: expected ratings from -10 to 10"):
        jester_world(folder)
    path.write_text("3,1,2,3\n")
    with pytest.raises(DataError, match="101 columns, got 4"):
        jester_world(folder)
    path.write_text("3,a\n")
    with pytest.raises(DataError, match="expected numbers"):
        jester_world(folder)
    path.write_text(lines([99] * 100))
    with pytest.raises(DataError, match="rated all 100 jokes"):
        jester_world(folder)


@pytest.mark.data
def test_real_block_has_7200_users(real_data) -> None:
    if not (real_data / "jester").exists():
        pytest.skip("SHORTLIST_DATA holds no jester")
    world = jester_world(real_data / "jester")
    assert (world.n_users, world.n_items) == (7200, 100)
    assert world.utilities.min() >= 0
    assert world.utilities.max() <= 1
    run = live_funnel(np.arange(50), 100, [world.r, world.r], (40, 10))
    best = np.sort(world.utilities[:50], axis=1)[:, -10:].sum(axis=1)
    assert np.allclose(shown_utility(run, world.r), best, atol=1e-4)
