import json

import torch

from shortlist.evaluate.full_catalog import rank_model
from shortlist.lab.bench.index_job import K, Mean, held_out_users, main


def test_the_job_prints_its_measurements(capsys):
    main("30", "200", "1")
    measured = json.loads(capsys.readouterr().out)
    assert measured["users"] == 30
    assert measured["seen_again"] == 0
    assert measured["peak_bytes"] >= measured["start_bytes"] >= 0


def test_a_user_is_the_mean_of_the_history_vectors():
    model = Mean(10, seed=0)
    history = torch.tensor([[-1, 3, 4], [-1, -1, -1]])
    torch.testing.assert_close(model.users(history)[0], (model.table[3] + model.table[4]) / 2)
    assert not model.users(history)[1].any()


def test_the_ranking_equals_a_full_sort():
    held_out, model = held_out_users(5, 300, 0), Mean(300, 0)
    query = held_out.query(width=100)
    scores = model.scores(query.history).scatter(1, query.history.clamp(min=0), -torch.inf)
    assert torch.equal(rank_model(model, held_out, K), scores.sort(dim=1, descending=True).indices[:, :K])
