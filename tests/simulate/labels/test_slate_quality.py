import torch

from shortlist.metrics.ranking import precision, recall
from shortlist.simulate.labels import best_quality, slate_quality


def test_both_of_two_labels_in_the_first_five_are_precision_0_4_and_recall_1():
    labels = torch.zeros(1, 8, dtype=torch.bool)
    labels[0, [1, 6]] = True
    scores = torch.tensor([[0.0, 5.0, 4.0, 3.0, 2.0, 1.0, 4.5, 0.5]])
    found = slate_quality(scores, labels)
    assert found.precision.tolist() == torch.tensor([0.4]).tolist()
    assert found.recall.tolist() == [1.0]


def test_a_row_without_labels_has_precision_and_recall_0():
    found = slate_quality(torch.rand(3, 7), torch.zeros(3, 7, dtype=torch.bool))
    assert found.precision.tolist() == found.recall.tolist() == [0.0, 0.0, 0.0]


def test_values_are_those_of_the_ranking_metrics():
    random = torch.Generator().manual_seed(0)
    scores = torch.rand(2, 40, 12, generator=random)
    labels = torch.rand(40, 12, generator=random) < 0.2
    relevant = torch.where(labels, torch.arange(12), -1)
    found = slate_quality(scores, labels)
    for at in range(2):
        best = scores[at].topk(5).indices
        assert torch.allclose(found.precision[at].double(), precision(best, relevant, 5).nan_to_num(0))
        assert torch.allclose(found.recall[at].double(), recall(best, relevant, 5).nan_to_num(0))


def test_the_ceiling_is_that_of_scores_equal_to_the_labels():
    labels = torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]).bool()
    ceiling = best_quality(labels)
    assert torch.allclose(ceiling.precision, torch.tensor([1.0, 0.2, 0.0]))
    assert torch.allclose(ceiling.recall, torch.tensor([5 / 6, 1.0, 0.0]))
