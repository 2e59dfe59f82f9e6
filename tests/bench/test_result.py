from shortlist.bench.result import claim, result, row


def test_a_claim_that_fails_is_told():
    assert claim("x", "here", 2.0, 1.0)["holds"] is False
    assert claim("x", "here", 1.0, 1.0)["holds"] is True


def test_a_row_has_its_spread():
    assert row("m", "s", [1.0, 3.0])["sd"] > 0
    assert row("m", "s", [1.0])["sd"] == 0.0


def test_a_result_says_what_it_was_measured_on():
    told = result("n", "p", 4, 1.0, [], [claim("x", "here", 2.0, 1.0)])
    assert told["x"] == 2.0
    assert told["seeds"] == [4]
    assert told["machine"]
