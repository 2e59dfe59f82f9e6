"""Training for the tree: samplers, losses, labels, updates, rounds."""

from shortlist.train.tree.beam_sampler import BeamSampler, model_targets
from shortlist.train.tree.loss import binary, level_softmax, margin, sampled_softmax, top_k_hinge
from shortlist.train.tree.rectify import Labels, Top, label_weights, mean_label_per_level, rectified
from shortlist.train.tree.sampler import All, Draw, Sampler, Siblings, Uniform, depth_aware, only_live
from shortlist.train.tree.tree_sampler import TreeSampler, log_proposal, proposal_kl

__all__ = [
    "All",
    "BeamSampler",
    "Draw",
    "Labels",
    "Sampler",
    "Siblings",
    "Top",
    "TreeSampler",
    "Uniform",
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
