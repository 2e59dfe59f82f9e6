"""Small leaf trees, random and hand-made."""

import torch

from shortlist.index.jtr import JTRIndex, LeafTree, grow


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def vectors_of(n, width=8, seed=0):
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed))


def grown(n=200, branch=4, leaf=9, width=8, seed=0):
    """An index with the vectors it was built from."""
    vectors = vectors_of(n, width, seed)
    return grow(vectors, branch, leaf, seed), vectors


def uneven():
    """Seven items; the root has leaf 1 and node 2, which has leaves 3 and 4; item 5 is in two leaves."""
    return LeafTree(int32(1, 3, 3, 5, 5, 5), int32(0, 0, 3, 3, 6, 8), int32(0, 4, 5, 1, 3, 5, 2, 6), 7, 3)


def shared(index, vectors, copies=2, seed=0):
    """The same index with every item in `copies` random leaves, as far as capacity allows."""
    tree = index.tree
    generator = torch.Generator().manual_seed(seed)
    room = {leaf: tree.leaf - int(tree.sizes[leaf]) for leaf in tree.leaves.tolist()}
    pairs = [(item, leaf) for item, (leaf, *_) in enumerate(tree.homes.tolist())]
    for item in torch.randperm(tree.n_items, generator=generator).tolist():
        free = [leaf for leaf in room if room[leaf] > 0 and (item, leaf) not in pairs][: copies - 1]
        pairs += [(item, leaf) for leaf in free]
        room.update({leaf: room[leaf] - 1 for leaf in free})
    items, leaves = torch.tensor(pairs).T
    return JTRIndex(tree.filled(items, leaves), index.nodes)
