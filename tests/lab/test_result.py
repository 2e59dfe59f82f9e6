from shortlist.lab.result import at_most, claim, result, row, start


def test_a_claim_that_fails_is_told():
    assert at_most("x", "here", 2.0, 1.0)["holds"] is False
    assert at_most("x", "here", 1.0, 1.0)["holds"] is True
    assert claim("x", "here", True, 0.5, "", [0.1, 0.9])["interval"] == [0.1, 0.9]


def test_a_row_has_its_spread():
    assert row("m", "s", [1.0, 3.0])["sd"] > 0
    assert row("m", "s", [1.0])["sd"] == 0.0


def test_a_result_says_what_it_was_measured_on():
    told = result("n", "p", [4, 5], start(), [], [])
    assert told["seeds"] == [4, 5]
    assert "torch" in told["machine"]
