"""A block of a transformer against the formula of attention, place by place."""

import pytest
import torch

from shortlist.models.sequence.transformer import Block


@pytest.fixture(scope="module", params=[True, False], ids=["causal", "both sides"])
def block(request) -> Block:
    torch.manual_seed(0)
    return Block(8, 2, 0.5, causal=request.param).double().eval()


def slow(block, x, there):
    """softmax(q k / sqrt(d)) v for every user, head and place on its own, then the small network."""
    told = torch.empty_like(x)
    d = x.shape[2] // block.heads
    for user, rows in enumerate(x):
        query, key, value = block.qkv(block.norm(rows)).split(x.shape[2], dim=1)
        for place in range(len(rows)):
            seen = [at for at in range(len(rows)) if (at <= place if block.causal else there[user, at])]
            heads = []
            for head in range(block.heads):
                own = slice(head * d, (head + 1) * d)
                weights = torch.softmax(key[seen, own] @ query[place, own] / d**0.5, dim=0)
                heads.append(weights @ value[seen, own])
            after = rows[place] + block.output(torch.cat(heads))
            told[user, place] = after + block.mlp(after)
    return told


@torch.no_grad()
def test_it_is_the_formula_of_attention(block):
    x = torch.randn(3, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    there = torch.tensor([[True] * 6, [False] * 3 + [True] * 3, [False] * 5 + [True]])
    given = None if block.causal else there[:, None, None, :]
    torch.testing.assert_close(block(x, given), slow(block, x, there), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_causal_one_does_not_look_ahead_and_the_other_does(block):
    x = torch.randn(1, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    other = x.clone()
    other[:, 3, 0] += 1
    one, two = block(x), block(other)
    assert torch.allclose(one[:, :3], two[:, :3], atol=1e-12) == block.causal
    assert not torch.allclose(one[:, 3:], two[:, 3:], atol=1e-3)


@torch.no_grad()
def test_what_is_not_there_is_not_seen():
    torch.manual_seed(0)
    block = Block(8, 2, 0.0, causal=False).eval()
    x = torch.randn(1, 4, 8)
    there = torch.tensor([False, True, True, True])[None, None, None]
    other = x.clone()
    other[:, 0] = 7.0
    assert torch.equal(block(x, there)[:, 1:], block(other, there)[:, 1:])


def test_it_forgets_at_random_while_it_learns_only():
    torch.manual_seed(0)
    block, x = Block(8, 2, 0.5), torch.randn(1, 4, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))
