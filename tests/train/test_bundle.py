"""A log that no split can measure is trained and served all the same, with a warning."""

import pytest

from shortlist.errors import DataError
from shortlist.pipeline import Request, load_recommender, parse_recipe
from shortlist.train import train
from shortlist.train.bundle import describe_training
from tests.train.test_checks import log

PLAIN = """
pipeline = "popular % 20 + mf % 10 >> seen % 5"

[stages.popular]
type = "popular"

[stages.mf]
type = "mf"

[stages.mf.train]
epochs = 2

[stages.seen]
type = "seen"
"""
RANKED = PLAIN.replace(">> seen % 5", ">> seen >> rank % 5") + '\n[stages.rank]\ntype = "feature-ranker"\n'


def test_log_of_one_and_two_events_is_trained_on_all_events_and_served_with_a_warning(tmp_path):
    dataset = log([1, 2] * 15)
    trained = train(parse_recipe(PLAIN, "plain.toml"), dataset, tmp_path / "bundle")
    about = load_recommender(tmp_path / "bundle").about
    assert (about.events, about.refit, about.measured) == (len(dataset.events), None, {})
    (warning,) = about.warnings
    assert warning.startswith(
        "nothing is measured (leave-last-out: expected users with 3 events or more, got none)"
    )
    assert describe_training(about) == "Trained on 45 events; nothing was measured. This pipeline is served."
    assert about.training["mf"].epochs == 2
    assert len(trained.recommendations(trained.recommend(Request(user=0)))) == 5


def test_ranker_without_requests_to_train_on_is_refused_with_its_name():
    with pytest.raises(
        DataError, match=r"ranked\.toml: \[stages\.rank\]: .* expected users with events before and after"
    ):
        train(parse_recipe(RANKED, "ranked.toml"), log([1] * 30))


def test_protocol_that_was_asked_for_and_holds_out_nobody_is_refused():
    with pytest.raises(DataError, match="expected users with 3 events or more, got none"):
        train(parse_recipe(PLAIN, "plain.toml"), log([1, 2] * 15), protocol="leave-last-out")
