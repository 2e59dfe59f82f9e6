"""A training step must not make the host wait for the device: nothing here may synchronise once it is warm."""

import warnings

import pytest
import torch

from shortlist.index.tree.shape import TreeShape
from shortlist.index.tree.tree import grow
from shortlist.train.tree.loss import binary, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.rectify import MODES, Labels, label_weights
from shortlist.train.tree.samplers.beam_sampler import BeamSampler, model_targets
from shortlist.train.tree.samplers.sampler import AllSampler, SiblingSampler, UniformSampler, only_live
from shortlist.train.tree.samplers.tree_sampler import TreeSampler

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SAMPLERS = [
    AllSampler(),
    UniformSampler(9),
    SiblingSampler(),
    TreeSampler(9),
    TreeSampler(9, "root", 0.1, "released"),
    BeamSampler(9),
]


def patiently(work):
    """Run something twice, the second time with every synchronisation an error."""
    work()
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode says that it is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        work()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@cuda
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("branch", [2, 5])
def test_sampling_and_losses_do_not_synchronise(sampler, branch):
    tree = grow(torch.randperm(300), 300, branch, spare=0.1).to("cuda")
    levels = tuple(range(2, tree.shape.height + 1))
    leaves = tree.leaves(torch.arange(300, device="cuda"))
    generator = torch.Generator("cuda").manual_seed(0)

    def score(level, nodes):
        return torch.sin(nodes.float() * level)

    def work():
        sampled = only_live(sampler.sample(tree.shape, levels, leaves, generator, score), levels, tree)
        targets = model_targets(score, tree.shape, levels, leaves)
        logits = sampled.nodes.float().requires_grad_()
        loss = sampled_softmax(logits, sampled.logw, sampled.valid) + binary(logits, sampled.valid, targets)
        (loss + margin(logits, sampled.valid) + top_k_hinge(logits, sampled.valid, k=3)).backward()

    patiently(work)


@cuda
@pytest.mark.parametrize("mode", MODES)
def test_labels_do_not_synchronise(mode):
    tree = grow(torch.randperm(300), 300, 3).to("cuda")
    scores, items = torch.randn(300, 300, device="cuda"), torch.arange(300, device="cuda")
    kept = torch.ones(300, tree.shape.height, device="cuda", dtype=torch.uint8)
    labels = Labels(mode, 0, kept[:, 0] if mode in ("strict", "none") else kept)
    patiently(lambda: (label_weights(scores, items, tree, (2, 3), mode), labels.weights(items, (2, 3))))


def test_equal_shapes_share_cached_constants():
    assert hash(TreeShape(10, 2)) == hash(TreeShape(10, 2))
