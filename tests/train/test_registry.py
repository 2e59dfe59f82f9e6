from shortlist.pipeline import TYPES
from shortlist.train import TRAINERS


def test_every_type_has_a_trainer():
    assert set(TRAINERS) == set(TYPES)
