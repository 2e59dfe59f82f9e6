"""A result says which processor it was measured on."""

import torch

from shortlist.evaluate.latency import one_thread
from shortlist.lab.processor import Processor, processor, processor_name
from shortlist.lab.result import result, start


def test_the_name_is_the_model_name_of_the_first_core(tmp_path):
    facts = tmp_path / "cpuinfo"
    facts.write_text("processor\t: 0\nmodel name\t: Fast 9 (64 cores)\n\nmodel name\t: other\n")
    assert processor_name(facts) == "Fast 9 (64 cores)"


def test_without_a_model_name_it_is_what_the_platform_says(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert processor_name(tmp_path / "missing") == "arm64"


def test_threads_are_those_in_use_when_the_result_is_made():
    with one_thread():
        assert result("n", "p", [0], start(), [], []).processor == processor()
        assert processor().threads == 1
    assert processor().threads == torch.get_num_threads()


def test_counts_are_written_in_words():
    assert str(Processor("Fast 9", 2, 1)) == "Fast 9, 2 cores, 1 thread"
