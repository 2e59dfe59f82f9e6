"""Facts about a bundle."""

from shortlist.pipeline.about import About, TrainingHistory


def test_stages_that_did_not_converge_and_warnings_are_collected() -> None:
    rank = TrainingHistory(3, 3, 3, (0.1, 0.2, 0.3), False, warnings=("rank: few targets",))
    training = {
        "towers": TrainingHistory(5, 9, 2, (0.1, 0.2), True),
        "rank": rank,
        "tree": TrainingHistory(1, 1),
    }
    about = About(training=training)
    assert about.not_converged == ("rank",)
    assert about.warnings == ("rank: few targets",)


def test_a_bundle_without_training_has_no_warnings() -> None:
    assert (About().not_converged, About().warnings) == ((), ())
