"""Sentences of every result."""

from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL, WORLDS


def test_the_errata_of_the_paper_are_named():
    for part in ("0.844", "0.894", "ceil(Q/V) - 1", "zeta(alpha, 1)", "biconvex", "lastfm-1K"):
        assert part in ERRATA


def test_the_protocol_says_what_is_measured_and_how():
    assert "499 uniform negatives" in PROTOCOL
    assert "bootstraps over users" in PROTOCOL
    assert "5,000 random users" in WORLDS
