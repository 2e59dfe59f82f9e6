from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, HeldOut, Vocabulary, half_history
from shortlist.train.context import TrainContext
from shortlist.train.finished_stages import fit_once
from shortlist.train.loop.horizon import horizon_of, horizons
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.registry import make_trainer
from tests.train.logs import chains, log

SMALL = {"width": 8, "max_history": 8, "batch_size": 32, "device": "cpu", "learning_rate": 1e-2}
MODELS = {
    "sasrec": {"heads": 1, "blocks": 1},
    "bert4rec": {"heads": 1, "blocks": 1},
    "sum-pooling": {"hidden": 8},
    "two-tower": {"hidden": 8},
    "fmlp": {},
}


def held_out(*counts):
    """A request with each number of events after its cut."""
    events = log(*(range(1 + count) for count in counts), n_items=40)
    starts = events.starts[:-1].astype(np.int64)
    return HeldOut(events, starts, starts + 1, events.starts[1:].astype(np.int64))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((1, 1, 1), (1,)), ((2, 2), (1, 2)), ((3, 3, 3), (1, 3)), ((2, 10, 30), (1, 5, 10))],
)
def test_horizons_are_one_half_and_all_of_the_usual_number_of_relevant_items(counts, expected):
    assert horizons(held_out(*counts)) == expected


def test_without_validation_the_next_event_is_the_target():
    assert horizons(None) == horizons(held_out(3).take(slice(0, 0))) == (1,)


def given(notes, tmp_path=None):
    split = half_history(chains(), seed=0, held_out=0.3)
    catalog = Catalog.bare(Vocabulary.of([f"i{row}" for row in range(split.train.n_items)]))
    return TrainContext(
        split.train, catalog, valid=split.valid, note=notes.__setitem__, checkpoint_dir=tmp_path
    )


@pytest.mark.parametrize("name", MODELS)
def test_every_sequence_model_chooses_its_label_horizon_and_a_refit_keeps_it(name):
    notes = {}
    context = given(notes)
    trainer = make_trainer(name, ahead=0, epochs=4, **MODELS[name], **SMALL)
    stage = trainer.fit({"name": "model"}, context)
    history = notes["model"]
    assert history.ahead in horizons(context.valid)
    assert len(horizons(context.valid)) > 1
    assert history.epochs <= 4  # the trial of the best is continued, not repeated
    trainer.fit({"name": "model"}, replace(context, valid=None, warm={"model": stage}))
    assert notes["model"].ahead == history.ahead == horizon_of(stage)


def test_horizon_with_the_best_validation_metric_is_continued(monkeypatch):
    split = half_history(chains(), seed=0, held_out=0.3)
    best = horizons(split.valid)[1]
    trained = []

    def metric(self, model, valid, seed):
        trained.append(self.ahead)
        return lambda: 1.0 if self.ahead == best else 0.0

    monkeypatch.setattr(SequenceTrainer, "_metric", metric)
    model = make_trainer("sasrec", ahead=0, epochs=5, **MODELS["sasrec"], **SMALL).learn(
        split.train, split.valid
    )
    assert trained == [*horizons(split.valid), best]
    assert model.summary.ahead == best
    assert len(model.validation) == 5


def test_training_that_is_started_again_chooses_the_same_horizon(tmp_path):
    notes = {}
    context = given(notes, tmp_path)
    trainer = make_trainer("sasrec", ahead=0, epochs=2, **MODELS["sasrec"], **SMALL)

    def fit(own):
        return trainer.fit({"name": "m"}, own)

    first = fit_once(fit, type(fit(replace(context, checkpoint_dir=None))), "m", {"name": "m"}, context)
    again = fit_once(lambda own: pytest.fail("fitted again"), type(first), "m", {"name": "m"}, context)
    assert horizon_of(first) == horizon_of(again) == notes["m"].ahead
    for name, one in first.tensors().items():
        assert torch.equal(one, again.tensors()[name])
