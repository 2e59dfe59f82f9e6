"""Products of matrices by oneDNN."""

import torch

from shortlist.train.loop.products import fast_products


def products():
    generator = torch.Generator().manual_seed(0)
    one = torch.randn(300, 70, generator=generator)
    two = torch.randn(70, 500, generator=generator)
    return one @ two, one.double() @ two.double()


def test_products_are_as_exact_as_float32():
    with fast_products():
        found, exact = products()
    assert torch.allclose(found.double(), exact, atol=1e-4)


def test_the_setting_is_restored_after_an_error():
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    try:
        with fast_products():
            raise ValueError
    except ValueError:
        assert matmul.fp32_precision == before


def test_processors_that_would_lose_precision_keep_their_products(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    with fast_products():
        assert matmul.fp32_precision == before


def test_a_precision_that_the_caller_chose_stays():
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee"
    try:
        with fast_products():
            assert matmul.fp32_precision == "ieee"
    finally:
        matmul.fp32_precision = before
