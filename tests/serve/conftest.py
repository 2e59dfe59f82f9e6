import pytest

from .small_service import served


@pytest.fixture(scope="module")
def client():
    with served() as one:
        yield one
