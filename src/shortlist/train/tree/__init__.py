"""Tree training: samplers, losses, rectified labels, tree updates, the training loop."""

from shortlist.train.tree.loss import binary, level_softmax, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.rectify import Labels, Top, label_weights, mean_label_per_level, rectified
from shortlist.train.tree.samplers.beam_sampler import BeamSampler, model_targets
from shortlist.train.tree.samplers.sampler import (
    AllSampler,
    SampledNodes,
    Sampler,
    SiblingSampler,
    UniformSampler,
    depth_aware,
    only_live,
)
from shortlist.train.tree.samplers.tree_sampler import TreeSampler, log_proposal, proposal_kl

__all__ = [
    "AllSampler",
    "BeamSampler",
    "Labels",
    "SampledNodes",
    "Sampler",
    "SiblingSampler",
    "Top",
    "TreeSampler",
    "UniformSampler",
    "binary",
    "depth_aware",
    "label_weights",
    "level_softmax",
    "log_proposal",
    "margin",
    "mean_label_per_level",
    "model_targets",
    "only_live",
    "proposal_kl",
    "rectified",
    "sampled_softmax",
    "top_k_hinge",
]
