"""Small trees of leaves, by chance and by hand."""

import torch

from shortlist.index.jtr import JTRIndex, LeafTree, grow


def whole(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def vectors_of(n, width=8, seed=0):
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed))


def grove(n=200, branch=4, leaf=9, width=8, seed=0):
    """A grown index with the vectors it was grown over."""
    vectors = vectors_of(n, width, seed)
    return grow(vectors, branch, leaf, seed), vectors


def uneven():
    """Seven items; below the root the leaf 1 and the node 2, below that the leaves 3 and 4; item 5 is in two."""
    return LeafTree(whole(1, 3, 3, 5, 5, 5), whole(0, 0, 3, 3, 6, 8), whole(0, 4, 5, 1, 3, 5, 2, 6), 7, 3)


def shared(index, vectors, copies=2, seed=0):
    """The same index with every item in `copies` leaves by chance, as far as there is room."""
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
