import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.compare import bundle_names, common_split, compare
from shortlist.evaluate.evaluation import evaluate
from shortlist.evaluate.paired_tests import Pair, PairedTests, compare_scores, comparison_warnings
from shortlist.evaluate.protocol.measures import choose_measures
from shortlist.evaluate.scores import Scores
from shortlist.metrics.significance import PairedTest, holm, p_text, paired
from shortlist.pipeline.about import About, TrainingHistory
from shortlist.simulate import embedded

USERS = 40


def scores(shift: float) -> Scores:
    generator = torch.Generator().manual_seed(int(shift * 1000))
    values = torch.rand(USERS, generator=generator, dtype=torch.float64) * 0.1 + shift
    return Scores({"recall@20": values, "ndcg@20": values / 2}, {})


SYSTEMS = {"first": scores(0.3), "better": scores(0.5), "same": scores(0.301)}
BASELINES = {"popularity": scores(0.1), "last click": scores(0.2)}


@pytest.fixture
def tests():
    return compare_scores(SYSTEMS, BASELINES, seed=1, samples=500)


def test_every_system_is_tested_against_the_first_and_the_best_baseline(tests):
    assert tests.best_baseline == "last click"
    assert [(pair.system, pair.against) for pair in tests.pairs] == [
        ("better", "first"),
        ("same", "first"),
        ("first", "last click"),
        ("better", "last click"),
        ("same", "last click"),
    ]
    assert [pair.against for pair in tests.popularity] == ["popularity"] * 3


def test_pairs_are_paired_tests_with_holms_correction(tests):
    expected = paired(SYSTEMS["better"]["recall@20"], SYSTEMS["first"]["recall@20"], seed=1, samples=500)
    assert tests.pairs[0].test == expected
    assert [pair.p_holm for pair in tests.pairs] == holm([pair.test.p_value for pair in tests.pairs])
    assert tests.pairs[0].significant
    assert not tests.pairs[1].significant


def test_single_system_is_tested_against_the_baseline_only():
    tests = compare_scores({"only": scores(0.3)}, {"popularity": scores(0.1)}, samples=100)
    assert [(pair.system, pair.against) for pair in tests.pairs] == [("only", "popularity")]
    assert tests.pairs[0].p_holm == tests.pairs[0].test.p_value


def test_metric_decides_which_baseline_is_best():
    one = Scores({"recall@20": torch.tensor([0.2, 0.4]), "ndcg@20": torch.tensor([0.1, 0.1])}, {})
    other = Scores({"recall@20": torch.tensor([0.1, 0.1]), "ndcg@20": torch.tensor([0.2, 0.4])}, {})
    for metric, best in (("recall@20", "one"), ("ndcg@20", "other")):
        tests = compare_scores({"s": one}, {"one": one, "other": other}, metric, samples=10)
        assert tests.best_baseline == best


def test_corrected_pairs_have_both_t_tests_and_welch_ignores_the_pairing(tests):
    for pair in tests.pairs:
        assert pair.t_tests.paired.difference == pytest.approx(pair.test.difference)
        assert pair.t_tests.welch.difference == pytest.approx(pair.test.difference)
    beats = tests.pairs[0].t_tests
    assert beats.paired.error < beats.welch.error  # users differ more than systems
    assert beats.paired_holm >= beats.paired.p_value
    assert all(pair.t_tests is None for pair in tests.popularity)


def test_sentences_say_which_system_wins(tests):
    sentences = [pair.sentence("recall@20") for pair in tests.pairs]
    assert sentences[0].startswith("better beats first: recall@20 +0.1968 [+0.18")
    assert sentences[1].startswith("same is not significantly different from first: ")
    swapped = compare_scores({"a": scores(0.5), "b": scores(0.3)}, {"popularity": scores(0.1)}, samples=100)
    assert swapped.pairs[0].sentence("recall@20").startswith("b is beaten by a: recall@20 -0.1968 [-0.2")


def random_systems(seed: int) -> PairedTests:
    """Six systems and a baseline with random hits."""
    rng = np.random.default_rng(seed)
    made = [
        Scores({"recall@20": torch.from_numpy(rng.integers(0, 2, 200).astype(float))}, {}) for _ in range(7)
    ]
    return compare_scores(dict(zip("abcdef", made, strict=False)), {"popularity": made[6]})


@pytest.mark.parametrize(("seed", "system", "against"), [(2, "c", "popularity"), (9, "d", "a")])
def test_random_difference_among_many_systems_is_not_significant(seed, system, against):
    tests = random_systems(seed)
    (pair,) = [one for one in tests.pairs if (one.system, one.against) == (system, against)]
    assert pair.test.below
    assert pair.test.p_value < 0.05 <= pair.p_holm
    assert not pair.significant
    assert pair.sentence("recall@20").startswith(f"{system} is not significantly different from {against}: ")
    assert not any(pair.significant for pair in tests.pairs)


def test_interval_that_touches_zero_is_not_significant_whatever_the_p_value():
    touching = PairedTest(0.1, 1e-18, 0.2, 0.01, 0.5, 3, 0, 1)
    assert not Pair.of("a", "b", touching, 0.01).significant
    assert Pair.of("a", "b", replace(touching, low=1e-6), 0.01).significant


def test_different_users_and_shared_names_are_refused():
    few = Scores({"recall@20": torch.tensor([0.1])}, {})
    for systems, baselines in (
        ({"a": few}, {"popularity": scores(0.1)}),
        ({"a": few}, {"a": few}),
        ({}, {"a": few}),
    ):
        with pytest.raises(DataError, match="scores of the same users"):
            compare_scores(systems, baselines)


def test_unknown_metric_is_refused():
    with pytest.raises(ConfigError, match="expected one of recall@20, ndcg@20, got 'luck@20'"):
        compare_scores(SYSTEMS, BASELINES, "luck@20")


@pytest.mark.parametrize("metric", ["luck@20", "recall", "recall@", "recall@0", "recall@x", "novelty@20"])
def test_metric_without_a_valid_cut_is_refused(metric):
    with pytest.raises(ConfigError, match="like recall@20; got"):
        choose_measures(metric=metric)


def test_cut_of_the_metric_is_added_to_the_usual_ones():
    assert choose_measures(metric="recall@20").ks == (10, 20)
    assert choose_measures(metric="ndcg@50").ks == (10, 20, 50)


@pytest.fixture(scope="module")
def comparison(world, recommender):
    return compare({"one": recommender, "two": recommender}, world, metric="ndcg@5")


def test_bundles_are_compared_on_the_held_out_users_of_their_split(comparison, world, recommender):
    assert comparison.users == len(world.split().test)
    counted = ["popularity", "popular in window", "last click"]
    assert list(comparison.metrics) == ["one", "two", *counted, "ease", "item-knn"]
    assert comparison.systems["one"].scores == evaluate_like(world, recommender, comparison)
    assert comparison.systems["one"].about is recommender.about


def evaluate_like(world, recommender, comparison):
    """The metrics of `evaluate` at the cuts both have."""
    found = evaluate(recommender, world).metrics["pipeline"]
    ours = comparison.systems["one"].scores
    for name, value in found.metrics.items():
        assert ours.metrics[name] == value
    return ours


def test_equal_bundles_have_no_difference_and_are_warned_of(comparison):
    assert comparison.pairs[0].test.difference == 0
    assert any("one, two: are the same model" in text for text in comparison.warnings)


def test_comparison_as_json_has_pairs_systems_and_no_nan(comparison):
    values = json.loads(json.dumps(as_json(comparison), allow_nan=False))
    assert {"system", "against", "test", "p_holm", "significant", "t_tests"} == set(values["pairs"][0])
    assert values["systems"]["one"]["latency"]["batch"] == 64
    assert values["protocol"]["split"] == "half-history"


def test_bundles_measured_on_samples_are_compared_on_the_smallest_one(world, recommender):
    about = recommender.about
    sampled = replace(recommender, about=replace(about, split={**about.split, "requests": 7}))
    split = common_split({"one": recommender, "two": sampled}, world)
    assert len(split.test) == 7
    found = compare({"one": recommender, "two": sampled}, world, baselines="counts")
    assert found.users == 7
    assert found.protocol.rows()["users"] == "7 users of the test part, a random sample of its requests"


def test_other_data_and_other_splits_are_refused(world, recommender):
    other = replace(
        recommender, about=replace(recommender.about, split={**recommender.about.split, "seed": 9})
    )
    with pytest.raises(
        ConfigError, match="two: was trained with another split than one: seed 9 instead of 0; train"
    ):
        common_split({"one": recommender, "two": other}, world)
    late = replace(recommender, about=replace(recommender.about, split={"protocol": "global-time"}))
    with pytest.raises(ConfigError, match="protocol 'global-time' instead of 'half-history'; train"):
        common_split({"one": recommender, "two": late}, world)
    foreign = replace(recommender, about=replace(recommender.about, fingerprint="else"))
    with pytest.raises(ConfigError, match="two: was trained on other data"):
        common_split({"one": recommender, "two": foreign}, world)
    with pytest.raises(ConfigError, match="was trained on other data"):
        common_split({"one": recommender}, embedded(seed=5, size="small"))
    with pytest.raises(ConfigError, match="one bundle or more"):
        common_split({}, world)


DONE = TrainingHistory(5, 10, 3, converged=True)


def of(values) -> Scores:
    return Scores({"recall@20": torch.tensor(values, dtype=torch.float64)}, {})


LOW, HIGH = of([0.1, 0.2, 0.1, 0.2] * 5), of([0.5, 0.6, 0.7, 0.6] * 5)
MIXED = of([0.9, 0.2, 0.7, 0.6] * 5)


def about(**changes) -> About:
    training = {"towers": DONE, "rank": replace(DONE, best_epoch=None, converged=None)}
    return replace(About(training=training, package="1.0", version="aa"), **changes)


def warned(systems, abouts, popularity=LOW):
    return list(comparison_warnings(compare_scores(systems, {"popularity": popularity}, samples=300), abouts))


def test_sound_comparison_has_no_warnings():
    systems = {"a": HIGH, "b": of([0.7, 0.8, 0.9, 0.8] * 5)}
    assert warned(systems, {"a": about(), "b": about(version="bb")}) == []


def test_training_that_did_not_converge_is_warned_of_with_its_stage():
    short = about(training={"towers": replace(DONE, best_epoch=10, converged=False)})
    (text,) = warned({"a": HIGH}, {"a": short})
    assert "a: stage 'towers' did not converge" in text
    assert "best epoch 10 of 10" in text


@pytest.mark.parametrize(
    ("system", "verb"), [(of([0.0, 0.1, 0.05, 0.1] * 5), "is below"), (LOW, "is not significantly above")]
)
def test_system_that_does_not_beat_popularity_is_warned_of(system, verb):
    assert any(f"a: {verb} popularity by recall@20" in text for text in warned({"a": system}, {"a": about()}))


def test_lower_mean_whose_interval_contains_0_is_not_called_below_popularity():
    texts = warned({"a": of([0.0, 0.2] * 10)}, {"a": about()}, of([0.21, 0.0] * 10))
    assert any("a: is not significantly above popularity by recall@20 (-0.0050" in text for text in texts)
    assert not any("is below" in text for text in texts)


def test_too_few_users_are_warned_of_with_the_needed_number():
    texts = warned({"a": HIGH, "b": MIXED}, {"a": about(), "b": about(version="bb")})
    (few,) = [text for text in texts if "too few users" in text]
    assert "b and a: " in few
    assert "users are needed" in few


def test_difference_that_holm_rejects_is_warned_of_with_its_adjusted_p_value():
    abouts = {name: about(version=name) for name in "abcdef"}
    tests = random_systems(2)
    (pair,) = [one for one in tests.pairs if (one.system, one.against) == ("c", "popularity")]
    assert pair.test.p_value < 0.05 < pair.p_holm
    texts = comparison_warnings(tests, abouts)
    (few,) = [text for text in texts if text.startswith("c and popularity: too few users")]
    assert f", Holm's p-value {p_text(pair.p_holm)}; about " in few
    assert int(few.split()[-4].replace(",", "")) > 200


def test_zero_difference_is_not_a_lack_of_users():
    assert warned({"a": HIGH, "b": HIGH}, {"a": about(), "b": about(version="bb")}) == []


def test_equal_models_different_seeds_and_different_packages_are_warned_of():
    texts = warned(
        {"a": HIGH, "b": HIGH, "c": HIGH},
        {"a": about(), "b": about(), "c": about(version="cc", seed=1, package="2.0")},
    )
    assert texts == [
        "a, b: are the same model (aa)",
        "the systems were trained with different seeds: a 0, b 0, c 1",
        "the systems were trained by different package versions: a 1.0, b 1.0, c 2.0",
    ]


def test_bundle_without_training_history_is_not_warned_of():
    assert warned({"a": HIGH}, {"a": about(training={})}) == []


def test_bundle_names_are_distinct(tmp_path):
    folders = [
        tmp_path / "a" / "bundle",
        tmp_path / "b" / "bundle",
        tmp_path / "tree",
        tmp_path / "popularity",
    ]
    assert list(bundle_names(folders)) == ["a/bundle", "b/bundle", "tree", "popularity (2)"]
    assert list(bundle_names([tmp_path / "tree"] * 3)) == [
        f"{tmp_path.name}/tree",
        f"{tmp_path.name}/tree (2)",
        f"{tmp_path.name}/tree (3)",
    ]
    assert bundle_names({"own": tmp_path}) == {"own": tmp_path}
    assert bundle_names(str(tmp_path)) == {tmp_path.name: str(tmp_path)}


def test_bundles_and_data_may_be_folders_or_objects(bundle, recommender, data_folder):
    found = compare([bundle, recommender], str(data_folder))
    assert list(found.systems) == [bundle.name, recommender.about.name]
    assert bundle_names([recommender, recommender]).keys() == {
        recommender.about.name,
        f"{recommender.about.name} (2)",
    }
    text = str(found)
    assert all(sentence in text for sentence in (*found.findings, *found.warnings))
    assert all(name in text for name in found.metrics)
