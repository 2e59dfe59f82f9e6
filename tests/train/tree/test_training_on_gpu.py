"""Trainings on a GPU: they learn, replay what was recorded, and give the same bytes again."""

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.train.tree.plan import METHODS, plan_of
from shortlist.train.tree.training import TreeTraining
from shortlist.train.tree.training_set import TreeTrainingSet
from shortlist.train.tree.validation import quality
from tests.train.tree.small import everything, next_item_scores, plan, same, training_set
from tests.train.tree.test_training import LONG, SLOW

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_every_method_learns_on_a_gpu(method, precision):
    data = training_set(estimator=lambda rows: next_item_scores(rows.cpu()).to(rows.device))
    one = TreeTraining(plan(method, **{**LONG, **SLOW.get(method, {})}, precision=precision), data, 0, "cuda")
    before = quality(one.chosen(), data.valid, one.plan, k=5).f1
    found = one.run()
    assert quality(found, data.valid, one.plan, k=5).f1 > before
    assert found.scorer.nodes.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("method", "given"),
    [(method, {}) for method in METHODS]
    + [
        ("dtr-t", {"spare_leaves": 0.3}),
        ("dtr-t", {"ahead": 3, "history_dropout": 0.2}),
        ("dtr-u", {"alpha": 0.5}),
        ("dtr-u", {"norm": "batch"}),
        ("dtr-t", {"branch": 4}),
        ("dtr-t", {"scorer": "mlp", "history": "item"}),
        ("dtr-t", {"scorer": "linear"}),
        ("dtr-t", {"restart": True}),
    ],
)
def test_replayed_steps_give_the_same_bytes(method, given):
    data = training_set(estimator=lambda rows: next_item_scores(rows.cpu()).to(rows.device))
    found = []
    for cuda_graph in (True, False):
        one = TreeTraining(plan(method, steps=12, cuda_graph=cuda_graph, **given), data, 0, "cuda")
        one.run()
        assert (one._stream is not None) == cuda_graph
        found.append(one.state.index.scorer.state_dict())
    assert all(torch.equal(found[0][name], weight) for name, weight in found[1].items())


@pytest.mark.parametrize("method", ["dtr-t", "dtr-u", "jtm", "tdm", "otm", "plt", "din"])
def test_on_a_gpu_the_same_seed_gives_the_same_bytes(method):
    """At a size where whatever is added up in no order shows."""
    generator = np.random.default_rng(0)
    users, items = np.repeat(np.arange(300), 100), generator.integers(0, 1500, 30_000)
    events = Interactions.of(users, items, np.tile(np.arange(100), 300), n_users=300, n_items=1500)
    sizes = {"rounds": 2, "steps": 40, "batch_size": 200, "eval_every": 40, "order": "random"}
    runs = [TreeTraining(plan_of(method, **sizes), TreeTrainingSet(events), 0, "cuda") for _ in range(2)]
    for one in runs:
        one.run()
    assert same(*(everything(one) for one in runs))


@pytest.mark.filterwarnings("ignore")  # torch warns of itself while it compiles
def test_a_compiled_scorer_learns_on_a_gpu():
    data = training_set()
    one = TreeTraining(plan("dtr-t", **LONG, compiled=True), data, 0, "cuda")
    before = quality(one.chosen(), data.valid, one.plan, k=5).f1
    assert quality(one.run(), data.valid, one.plan, k=5).f1 > before
