"""A transformer block equals the formula of attention, position by position."""

import pytest
import torch

from shortlist.models.sequence.transformer import Block


@pytest.fixture(scope="module", params=[True, False], ids=["causal", "bidirectional"])
def block(request) -> Block:
    torch.manual_seed(0)
    return Block(8, 2, 0.5, causal=request.param).double().eval()


def slow(block, x, valid):
    """softmax(q k / sqrt(d)) v for every user, head and position, then the feed-forward network."""
    output = torch.empty_like(x)
    d = x.shape[2] // block.heads
    for user, rows in enumerate(x):
        query, key, value = block.qkv(block.norm(rows)).split(x.shape[2], dim=1)
        for position in range(len(rows)):
            visible = [at for at in range(len(rows)) if (at <= position if block.causal else valid[user, at])]
            heads = []
            for head in range(block.heads):
                own = slice(head * d, (head + 1) * d)
                weights = torch.softmax(key[visible, own] @ query[position, own] / d**0.5, dim=0)
                heads.append(weights @ value[visible, own])
            after = rows[position] + block.output(torch.cat(heads))
            output[user, position] = after + block.mlp(after)
    return output


@torch.no_grad()
def test_block_equals_the_formula_of_attention(block):
    x = torch.randn(3, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    valid = torch.tensor([[True] * 6, [False] * 3 + [True] * 3, [False] * 5 + [True]])
    mask = None if block.causal else valid[:, None, None, :]
    torch.testing.assert_close(block(x, mask), slow(block, x, valid), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_causal_block_ignores_later_positions_and_the_other_does_not(block):
    x = torch.randn(1, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    other = x.clone()
    other[:, 3, 0] += 1
    one, two = block(x), block(other)
    assert torch.allclose(one[:, :3], two[:, :3], atol=1e-12) == block.causal
    assert not torch.allclose(one[:, 3:], two[:, 3:], atol=1e-3)


@torch.no_grad()
def test_masked_positions_are_ignored():
    torch.manual_seed(0)
    block = Block(8, 2, 0.0, causal=False).eval()
    x = torch.randn(1, 4, 8)
    valid = torch.tensor([False, True, True, True])[None, None, None]
    other = x.clone()
    other[:, 0] = 7.0
    torch.testing.assert_close(block(x, valid)[:, 1:], block(other, valid)[:, 1:])


def test_dropout_is_active_in_training_only():
    torch.manual_seed(0)
    block, x = Block(8, 2, 0.5), torch.randn(1, 4, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
