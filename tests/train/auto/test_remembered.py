"""A training that is started again uses the plan of the first start."""

import pytest

from shortlist.errors import ArtifactError
from shortlist.simulate import embedded
from shortlist.train.auto.plan import plan
from shortlist.train.auto.remembered import remembered


@pytest.fixture(scope="module")
def made():
    return plan(embedded(0, "small"), minutes=0.05)


def test_plan_is_made_once_per_key(tmp_path, made):
    first = remembered(tmp_path, ("data", 1), lambda: made)
    again = remembered(tmp_path, ("data", 1), lambda: pytest.fail("made again"))
    assert (again.toml, again.report, again.profile) == (first.toml, first.report, first.profile)
    assert dict(again.estimates) == dict(first.estimates)
    with pytest.raises(ZeroDivisionError):
        remembered(tmp_path, ("data", 2), lambda: 1 / 0)


def test_nothing_is_written_without_a_folder(made):
    assert remembered(None, 1, lambda: made) is made


def test_damaged_plan_is_an_error_that_names_it(tmp_path, made):
    remembered(tmp_path, 1, lambda: made)
    path = next(tmp_path.glob("plan-*.json"))
    path.write_text("{}")
    with pytest.raises(ArtifactError, match="remove it, and it is made again"):
        remembered(tmp_path, 1, lambda: made)
