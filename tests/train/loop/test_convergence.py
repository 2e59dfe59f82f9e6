import pytest

from shortlist.pipeline.about import TrainingHistory
from shortlist.train.loop.convergence import best_of, converged, history_of


@pytest.mark.parametrize(
    ("validation", "max_epochs", "patience", "expected"),
    [
        ([], 10, 2, None),
        ([0.1, 0.3, 0.2, 0.2], 10, 2, True),  # stopped by patience
        ([0.1, 0.2, 0.3], 3, 2, False),  # still improving at the end
        ([0.1], 1, 2, False),  # one evaluation shows no maximum
        ([0.1, 0.3, 0.2], 3, 5, True),  # a tenth of three is one
        ([0.1] * 18 + [0.2, 0.1], 20, 5, False),  # one of twenty could be noise
        ([0.1] * 17 + [0.2, 0.1, 0.1], 20, 5, True),
        ([0.1] * 17 + [0.2, 0.1, 0.1], 20, 0, True),  # without patience a tenth is enough
        ([0.2] * 20, 20, 5, True),  # the first of equals is the best
    ],
)
def test_training_converged_if_the_metric_stopped_improving(validation, max_epochs, patience, expected):
    assert converged(validation, max_epochs, patience) is expected


def test_improvement_in_the_last_epoch_means_not_converged():
    validation = [0.1, 0.2, 0.15, 0.18]
    assert converged(validation, 4, 2) is True
    assert converged([*validation, 0.3], 5, 2) is False


def test_history_counts_epochs_from_one_and_has_no_nan():
    assert history_of([0.1, float("nan"), 0.3, 0.2, 0.2], 10, 2) == TrainingHistory(
        epochs=5,
        max_epochs=10,
        best_epoch=3,
        validation=(0.1, None, 0.3, 0.2, 0.2),
        converged=True,
    )


def test_history_without_validation_has_all_epochs_and_no_best_one():
    assert history_of([], 4, 2) == TrainingHistory(epochs=4, max_epochs=4)


def test_nan_is_never_the_best():
    assert best_of([float("nan"), 0.1, 0.1]) == 1
