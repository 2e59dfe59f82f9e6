from shortlist.lab.bench.timing import alternating


def test_works_alternate_after_a_warmup_round():
    calls = []
    times = alternating(
        {name: lambda call, name=name: calls.append((name, call)) for name in "ab"}, 2, {"b": 2}
    )
    expected = [("a", -1), ("b", -2), ("b", -1), ("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 2), ("b", 3)]
    assert calls == expected
    assert [len(own) for own in times.values()] == [2, 2]
