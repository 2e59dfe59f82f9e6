import pytest

from shortlist.errors import ConfigError
from shortlist.evaluate.protocol.measures import USUAL, choose_measures


def test_all_metrics_at_10_and_20_are_the_default_and_recall_at_20_decides():
    chosen = choose_measures()
    assert (chosen.names, chosen.ks, chosen.metric, chosen.slate) == (USUAL, (10, 20), "recall@20", 20)
    assert chosen.tested == ("recall@20", "ndcg@20", "precision@20", "hit_rate@20", "mrr@20")


@pytest.mark.parametrize("metrics", ["ndcg,Hit-Rate", " ndcg , hit_rate ", ["ndcg", "hit_rate"]])
@pytest.mark.parametrize("at", ["50,5", [5, 50], (50, 5, 5)])
def test_first_metric_at_the_largest_cut_off_decides(metrics, at):
    chosen = choose_measures(metrics, at)
    assert (chosen.names, chosen.ks, chosen.metric) == (("ndcg", "hit_rate"), (5, 50), "ndcg@50")
    assert chosen.tested == ("ndcg@50", "hit_rate@50")


def test_catalogue_metrics_are_computed_but_do_not_decide():
    chosen = choose_measures("coverage,novelty,mrr", 5)
    assert (chosen.metric, chosen.tested) == ("mrr@5", ("mrr@5",))
    with pytest.raises(ConfigError, match="--metrics: expected at least one of precision, recall"):
        choose_measures("coverage,novelty")


def test_deciding_metric_is_added_to_the_chosen_ones():
    chosen = choose_measures("ndcg", "10", "map@30")
    assert (chosen.names, chosen.ks, chosen.metric) == (("map", "ndcg"), (10, 30), "map@30")


def test_ndcg_of_the_hits_is_computed_only_where_it_is_chosen():
    assert "ndcg_hits" not in choose_measures().names
    assert choose_measures("ndcg,ndcg-hits", 5).tested == ("ndcg@5", "ndcg_hits@5")
    assert choose_measures(metric="ndcg_hits@20").metric == "ndcg_hits@20"


@pytest.mark.parametrize("metrics", ["luck", "recall,,ndcg", "recall@20", "", []])
def test_unknown_metrics_are_refused_with_the_list(metrics):
    with pytest.raises(
        ConfigError, match="--metrics: expected some of precision, recall, f1, hit_rate, ndcg"
    ):
        choose_measures(metrics)


@pytest.mark.parametrize("at", ["0", "5,x", "-1", "1001", "", "5.5", [], [0]])
def test_wrong_cut_offs_are_refused_with_an_example(at):
    with pytest.raises(ConfigError, match="--at: expected cut-offs from 1 to 1000, like --at 5,10,50"):
        choose_measures(at=at)
