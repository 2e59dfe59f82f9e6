"""Errors: one family with one base class."""

import pytest

from shortlist import errors
from shortlist.errors import MissingExtraError, ShortlistError

FAMILY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_every_error_is_a_shortlist_error_with_a_docstring(kind):
    assert issubclass(kind, ShortlistError)
    assert kind.__doc__


def test_missing_package_error_has_the_install_command():
    assert str(MissingExtraError("faiss", "ann")) == (
        "this needs the package 'faiss'; install it with: pip install 'shortlist[ann]'"
    )
