import sys

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.evaluate.online import OnlineTest, ScoresAt
from shortlist.evaluate.online.predict import predict, user_vectors
from tests.evaluate.online.worlds import ITEMS, FixedScores, models, small_split, state_model

SMALL = {"CELLS": 3 * ITEMS, "READ": 40, "ROWS": 5}  # blocks of a few rows


def all_scores(model, test, window=None):
    """Scores before every event [n, N]; every event comes once."""
    found = np.full((len(test), test.n_items), np.nan)
    for block in predict(model, test, window):
        assert np.isnan(found[block.rows]).all()
        found[block.rows] = block.scores
    assert not np.isnan(found).any()
    return found


@torch.no_grad()
def one_at_a_time(model, test, window=None):
    """Scores before every event, from its history alone."""
    rows = []
    for row in range(len(test)):
        history = test.histories(np.array([row]), len(test.events))[0]
        history = history[history >= 0][-window if window else 0 :]
        user = torch.tensor([test.known_users[row]])
        rows.append(model.scores(torch.from_numpy(history)[None], user)[0].numpy())
    return np.array(rows)


@pytest.fixture(params=[False, True], ids=["large blocks", "small blocks"])
def blocks(request, monkeypatch):
    for name, size in SMALL.items() if request.param else ():
        monkeypatch.setattr(sys.modules[predict.__module__], name, size)


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("name", ["ccf", "gru4rec", "sasrec", "sum-pooling", "last-click"])
def test_29_batches_equal_one_event_at_a_time(name, block, blocks):
    """Test 29 of the specification of two time scales, for models that read a window of the history."""
    split = small_split()
    model, test = models(split)[name], OnlineTest.of(split, block=block)
    np.testing.assert_allclose(all_scores(model, test), one_at_a_time(model, test), atol=1e-5)


@pytest.mark.parametrize("window", [1, 3])
def test_a_model_reads_no_more_than_the_window(window, blocks):
    split = small_split()
    test = OnlineTest.of(split)
    for name in ("gru4rec", "sum-pooling"):
        model = models(split)[name]
        expected = one_at_a_time(model, test, window)
        np.testing.assert_allclose(all_scores(model, test, window), expected, atol=1e-5)
        assert abs(all_scores(model, test) - expected).max() > 1e-3
    with pytest.raises(ConfigError, match="a window of 0 items or more, got -1"):
        list(predict(model, test, -1))


def test_users_without_training_events_are_unknown():
    split = small_split()
    test, ccf = OnlineTest.of(split), models(split)["ccf"]
    found = all_scores(ccf, test)
    new = split.train_counts[test.users] == 0
    assert new.any()
    assert not new.all()
    np.testing.assert_allclose(found[new], (ccf.mean_user @ ccf.vectors().T).expand(new.sum(), -1), rtol=1e-5)


def test_scores_that_depend_on_time_come_in_its_order(blocks):
    class Times(FixedScores):
        seen = ()

        def scores_at(self, test, rows):
            self.seen = (*self.seen, *test.events.times[test.positions[rows]])
            return super().scores_at(test, rows)

    model, test = Times(), OnlineTest.of(small_split())
    assert isinstance(model, ScoresAt)
    found = all_scores(model, test)
    assert list(model.seen) == sorted(model.seen)
    assert len(model.seen) == len(test)
    assert (found == model.scores_at(test, np.arange(len(test))).numpy()).all()


def test_mode_and_gradients_of_the_caller_are_kept():
    split = small_split()
    test = OnlineTest.of(split)
    for model in (models(split)["sasrec"], state_model(split), models(split)["last-click"]):
        model.train()
        for block in predict(model, test):
            assert torch.is_grad_enabled()
            assert not block.scores.requires_grad
            assert not model.training
        assert model.training


def test_user_vectors_give_the_scores():
    split = small_split()
    test = OnlineTest.of(split)
    for model in (models(split)["gru4rec"], state_model(split)):
        found = all_scores(model, test)
        for batch in user_vectors(model, test):
            np.testing.assert_allclose(
                batch.vectors @ model.vectors().detach().T, found[batch.rows], atol=1e-5
            )


def test_a_model_of_another_catalogue_is_refused():
    test = OnlineTest.of(small_split(), "valid")
    other = models(small_split())["sasrec"]
    other.config = type(other.config)(n_items=4)
    with pytest.raises(ArtifactError, match="the model is of 4 items, the catalogue has 30"):
        list(predict(other, test))
