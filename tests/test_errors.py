"""Errors: one family, each with words for a person."""

import pytest

from shortlist import errors
from shortlist.errors import MissingExtraError, ShortlistError

FAMILY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_every_error_can_be_caught_as_one_of_ours_and_says_what_it_is_for(kind):
    assert issubclass(kind, ShortlistError)
    assert kind.__doc__


def test_a_missing_package_comes_with_the_way_to_install_it():
    assert str(MissingExtraError("faiss", "ann")) == (
        "this needs the package 'faiss'; install it with: pip install 'shortlist[ann]'"
    )
