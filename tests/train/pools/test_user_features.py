"""Numbers from a table of users."""

import pyarrow as pa
import torch

from shortlist.train.pools.user_features import user_features


def test_numbers_are_standardised_and_texts_become_columns():
    table = pa.table({"age": [20, 40, None, 30], "job": ["a", "b", "a", None], "tags": [[1], [2], [3], [4]]})
    features = user_features(table)
    assert features.shape == (4, 3)
    assert torch.allclose(features[:, 0].mean(), torch.tensor(0.0), atol=1e-6)
    assert features[2, 0] == 0, "an unknown number is at the mean"
    assert features[0, 1] == features[2, 1] > features[1, 1]


def test_a_constant_or_empty_column_is_0_and_no_table_has_no_features():
    features = user_features(pa.table({"one": [1.0, 1.0], "none": pa.array([None, None], pa.float64())}))
    assert torch.equal(features, torch.zeros(2, 2))
    assert user_features(None).numel() == 0
    assert user_features(pa.table({})).numel() == 0
    assert user_features(pa.table({"tags": [[1], [2]]})).numel() == 0


def test_only_frequent_texts_get_a_column():
    features = user_features(pa.table({"town": [f"t{row}" for row in range(50)] + ["t7"]}))
    assert features.shape == (51, 32)
    assert int((features[:, 0] > 0).sum()) == 2


def test_dictionaries_and_booleans_are_read():
    table = pa.table({"sex": pa.array(["f", "m", "f"]).dictionary_encode(), "member": [True, False, True]})
    assert user_features(table).shape == (3, 3)
