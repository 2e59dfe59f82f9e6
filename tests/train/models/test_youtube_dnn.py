import torch

from shortlist.models.sequence.youtube_dnn import YouTubeDNN, YouTubeDNNConfig
from shortlist.train.models.youtube_dnn import YouTubeDNNTrainer
from tests.train.logs import tastes


def test_the_sizes_are_those_of_the_model():
    model = YouTubeDNNTrainer(max_history=7, width=6, layers=(5, 4), dropout=0.1).model(9)
    assert isinstance(model, YouTubeDNN)
    assert model.config == YouTubeDNNConfig(9, max_history=7, width=6, layers=(5, 4), dropout=0.1)


def test_as_published_it_learns_by_a_sampled_softmax_which_items_belong_together():
    trainer = YouTubeDNNTrainer(
        width=16, layers=(16,), max_history=8, epochs=40, batch_size=16, learning_rate=1e-2, negatives=10, device="cpu"
    )
    assert trainer.loss == "sampled"
    model = trainer.learn(tastes())
    with torch.no_grad():
        best = model.scores(torch.tensor([[0, 5, 3], [12, 11, 19]])).topk(7).indices
    assert (best[0] < 10).all()
    assert (best[1] >= 10).all()
