from dataclasses import replace

from shortlist.diagnose.findings.findings import findings_of
from shortlist.diagnose.findings.retrained import gain_per_second, retrained_sentences, significant
from shortlist.diagnose.findings.summary import setting
from shortlist.diagnose.knobs.knobs import KnobResult
from tests.diagnose.example import between, diagnosis, knob


def trained(stage, name, value, gain, p_value=0.001, seconds=2.0):
    return KnobResult(
        stage, name, value, between(gain), None, True, None, seconds, p_value, f"--set stages.{stage}.x=1"
    )


def test_retraining_that_gains_comes_first_and_the_largest_gain_before_others():
    small, large = trained("rank", "epochs", "40", 0.02), trained("pool", "nominator", "ease % 100", 0.03)
    worse = trained("rank", "mode", "mixed", -0.05)
    found = findings_of(diagnosis(knobs=(small, worse, large)))
    assert [finding.stage for finding in found[:2]] == ["pool", "rank"]
    assert all(finding.advised for finding in found[:2])
    assert found[0].what.startswith("Adding ease % 100 to 'pool' gains +3.0 points [+2.0, +4.0] of recall.")
    assert "Train with: --set stages.pool.x=1." in found[0].knob
    assert "Trained: adding ease % 100 to 'pool' gave +3.0 points" in found[2].knob  # the loss of the pool
    assert "Not known" not in " ".join(finding.text for finding in found)


def test_gain_that_many_changes_explain_is_not_advice():
    lucky = trained("rank", "epochs", "40", 0.02, p_value=0.02)
    assert significant([lucky]) == [lucky]
    others = [trained("rank", "mode", str(number), -0.01, p_value=0.5) for number in range(9)]
    assert significant([lucky, *others]) == []  # Holm: 0.02 times 10
    assert not any(
        finding.advised and finding.stage == "rank"
        for finding in findings_of(diagnosis(knobs=(lucky, *others)))
    )


def test_one_finding_for_each_stage():
    first, second = trained("rank", "epochs", "40", 0.02), trained("rank", "mode", "mixed", 0.03)
    found = [one for one in findings_of(diagnosis(knobs=(first, second))) if one.what.endswith("of recall.")]
    assert [one.setting for one in found] == ["mode = mixed at 'rank'"]


def test_changes_that_were_not_trained_are_listed():
    waiting = replace(knob("rank", "removed", "left out", None), why="no time left within --minutes 1")
    assert retrained_sentences([waiting]) == [
        "No change of it was trained. Not trained: leaving out 'rank'.",
    ]


def test_changes_are_sentences_and_cheap_gains_come_first():
    assert setting(trained("ease", "fit", "again", 0.1)) == "fitting 'ease' again with the same settings"
    assert "twice the limit" in setting(trained("pool", "limits", "doubled", 0.1))
    cheap, dear = trained("a", "epochs", "1", 0.01, seconds=1), trained("b", "epochs", "1", 0.02, seconds=10)
    assert gain_per_second(cheap) > gain_per_second(dear)
