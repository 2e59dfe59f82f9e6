import json

from shortlist.lab.bench.data import write_events
from shortlist.lab.bench.data_job import main, ours, peak_bytes, scan


def test_both_jobs_return_their_bytes(tmp_path, capsys):
    write_events(tmp_path / "events.parquet", 5000, 0)
    assert ours(tmp_path / "events.parquet") == 5000 * (4 + 4 + 8 + 4)
    assert scan(tmp_path / "events.parquet") >= 5000 * (8 + 8 + 8 + 4)
    main("scan", str(tmp_path / "events.parquet"))
    measured = json.loads(capsys.readouterr().out)
    assert measured["seconds"] > 0


def test_peak_memory_is_reported_or_zero():
    assert peak_bytes() >= 0
