import pytest
import torch

from shortlist.errors import DataError
from shortlist.simulate.labels import LabelTable


@pytest.fixture
def table():
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    return LabelTable(features, torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0]], dtype=torch.bool))


def test_a_table_counts_its_labels(table):
    assert (len(table), table.width, table.n_labels) == (4, 2, 3)
    assert table.popularity.tolist() == [0.25, 0.75, 0.0]
    assert table.positivity == pytest.approx(4 / 12)
    assert table.empty == 0.25
    assert table.top_share == 1.0


def test_a_prototype_points_from_all_rows_to_those_with_the_label(table):
    prototypes = table.prototypes
    assert prototypes[0].tolist() == [1.0, -1.0]
    assert torch.allclose(prototypes[1], torch.tensor([1.0, 1.0]))
    assert prototypes[2].tolist() == [0.0, 0.0]  # no row has it


def test_some_rows_of_a_table_are_a_table(table):
    assert table.of(slice(0, 1)).popularity.tolist() == [1.0, 1.0, 0.0]
    assert torch.equal(table.of(torch.tensor([2, 0])).features, table.features[[2, 0]])


def test_features_and_labels_that_do_not_fit_are_refused(table):
    with pytest.raises(DataError, match="expected features"):
        LabelTable(table.features[:3], table.labels)
    with pytest.raises(DataError, match=r"got \(4, 2\) and \(4, 3\) torch.int64"):
        LabelTable(table.features, table.labels.long())
    with pytest.raises(DataError, match="finite features"):
        LabelTable(table.features / 0, table.labels)
