"""A split by clusters of users."""

import torch

from shortlist.lab.experiments.components.budget.clusters import CLUSTERS, cluster_split
from shortlist.train.split.gate import fit_gate
from tests.train.split.two_kinds import NAMES, USERS, batch_of, events_of, recall_of


def test_a_request_gets_the_nominator_of_its_kind():
    batch = batch_of(torch.arange(USERS) % 2)
    features = fit_gate([batch], NAMES, events_of(batch), seed=0)
    split = cluster_split([batch], features, NAMES, budget=20, seed=0)
    assert len(split.limits) == CLUSTERS
    assert recall_of(split, batch).mean() > 0.9
    rates = split.rates(batch.query)
    assert ((rates[:, 0] > rates[:, 1]) == (torch.arange(USERS) % 2 == 0)).float().mean() > 0.9
