import pytest

from .tiny import served


@pytest.fixture(scope="module")
def client():
    with served() as one:
        yield one
