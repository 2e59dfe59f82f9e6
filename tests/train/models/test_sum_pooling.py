import torch

from shortlist.models.sequence.sum_pooling import SumPooling, SumPoolingConfig
from shortlist.train.models.sum_pooling import SumPoolingTrainer
from tests.train.logs import tastes


def test_the_sizes_are_those_of_the_model():
    model = SumPoolingTrainer(max_history=7, width=6, hidden=5, dropout=0.1).model(9)
    assert isinstance(model, SumPooling)
    assert model.config == SumPoolingConfig(9, max_history=7, width=6, hidden=5, dropout=0.1)


def test_it_learns_which_items_belong_together():
    trainer = SumPoolingTrainer(
        width=16, hidden=16, max_history=8, epochs=30, batch_size=16, learning_rate=1e-2, dropout=0.0, device="cpu"
    )
    model = trainer.learn(tastes())
    with torch.no_grad():
        best = model.scores(torch.tensor([[0, 5, 3], [12, 11, 19]])).topk(7).indices
    assert (best[0] < 10).all()
    assert (best[1] >= 10).all()
