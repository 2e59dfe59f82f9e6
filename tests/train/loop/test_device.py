import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.train.loop.device import device_of


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (device_of("auto").type, device_of("cpu").type, device_of("cuda").type) == ("cuda", "cpu", "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto").type == "cpu"


def test_missing_gpu_and_unknown_device_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="torch finds no GPU"):
        device_of("cuda")
    with pytest.raises(ConfigError, match='device must be "auto"'):
        device_of("tpu")
