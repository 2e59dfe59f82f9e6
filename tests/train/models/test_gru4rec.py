import torch

from shortlist.models.sequence.gru4rec import GRU4Rec, GRU4RecConfig
from shortlist.train.models.gru4rec import GRU4RecTrainer
from tests.train.logs import chains


def test_the_sizes_are_those_of_the_model():
    model = GRU4RecTrainer(max_history=7, width=6, hidden=5, layers=2, dropout=0.1).model(9)
    assert isinstance(model, GRU4Rec)
    assert model.config == GRU4RecConfig(9, max_history=7, width=6, hidden=5, layers=2, dropout=0.1)


def test_it_learns_a_pattern_by_heart():
    trainer = GRU4RecTrainer(
        width=16, hidden=16, max_history=8, epochs=20, batch_size=16, learning_rate=1e-2, dropout=0.0, device="cpu"
    )
    model = trainer.learn(chains())
    with torch.no_grad():
        found = model.scores(torch.tensor([[0, 1, 2], [-1, 5, 6], [17, 18, 19]])).argmax(1).tolist()
    assert found == [3, 7, 10]
