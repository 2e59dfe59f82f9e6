"""Tiles of sixteen inner products, written as LLVM vector instructions: the inner loop of the exact scan.

A product is summed in sixteen partial sums along the width, which are then added in pairs in a fixed order: its bits
depend on the two vectors alone, not on the batch of queries nor on where a block of vectors begins. Numba caches the
compiled callers by the text of `topk_kernel.py`: raise `TILES` there after a change here.
"""

from collections.abc import Sequence
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16  # products per tile, and floats of a vector read at once
SIDE = 4  # vectors, and queries, of a square tile
BYTES = 4  # per float

tools: Any = cgutils
ir = tools.ir
FLOAT, INT64 = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
FUSED = ("contract",)  # multiply and add may be fused

FOURS = range(0, LANES, 4)
# Shuffle masks of the pairwise sums, (first, second) per round; the two shuffled vectors are added. Sixteen vectors of
# partial sums enter four rounds and one leaves: its lane n is the sum of vector n.
ROUNDS: tuple[tuple[list[int], list[int]], ...] = (
    (
        [at for n in FOURS for at in (n, n + 16, n + 1, n + 17)],
        [at for n in FOURS for at in (n + 2, n + 18, n + 3, n + 19)],
    ),
    (
        [at for n in FOURS for at in (n, n + 1, n + 16, n + 17)],
        [at for n in FOURS for at in (n + 2, n + 3, n + 18, n + 19)],
    ),
    ([*range(8), *range(16, 24)], [*range(8, 16), *range(24, 32)]),
    (
        [at for n in (0, 8, 16, 24) for at in range(n, n + 4)],
        [at for n in (4, 12, 20, 28) for at in range(n, n + 4)],
    ),
)


def _tall_tile(
    context: Any, vectors: Any, row: Any, queries: Any, query: Any, thresholds: Any, out: Any
) -> Any:
    """LANES vectors from `row` times one query into `out` [LANES]; returns a bit mask of products above the threshold.

    vectors [N, D], D >= LANES; queries [B, chunks * LANES] as `padded_queries` lays them out; thresholds [B, LANES];
    float32.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        items, users, threshold, target = (
            _Rows(context, builder, signature.args[n], args[n]) for n in (0, 2, 4, 5)
        )
        parts: list[Any] = []
        for n in range(LANES):  # one after the other: a processor fetches ahead what is read in order
            rows = [items.at(builder.add(args[1], INT64(n)))]
            parts += _partial_sums(builder, rows, [users.at(args[3])], items.width, users.width)
        return _above(builder, parts, threshold.at(args[3]), target.begin)

    return types.int64(vectors, types.int64, queries, types.int64, thresholds, out), emit


def _square_tile(
    context: Any, vectors: Any, row: Any, queries: Any, query: Any, thresholds: Any, out: Any
) -> Any:
    """SIDE vectors from `row` times SIDE queries from `query`, query by query.

    As the tall tile, but thresholds [B / SIDE, LANES] have one row per SIDE queries.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        items, users, threshold, target = (
            _Rows(context, builder, signature.args[n], args[n]) for n in (0, 2, 4, 5)
        )
        rows = [items.at(builder.add(args[1], INT64(n))) for n in range(SIDE)]
        columns = [users.at(builder.add(args[3], INT64(n))) for n in range(SIDE)]
        parts = _partial_sums(builder, rows, columns, items.width, users.width)
        return _above(builder, parts, threshold.at(builder.sdiv(args[3], INT64(SIDE))), target.begin)

    return types.int64(vectors, types.int64, queries, types.int64, thresholds, out), emit


tall_tile: Any = intrinsic(_tall_tile)
square_tile: Any = intrinsic(_square_tile)


class _Rows:
    """Addresses of the rows of an array."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder = builder
        self.begin = builder.ptrtoint(array.data, INT64)
        self.stride = tools.unpack_tuple(builder, array.strides)[0]
        self.width = tools.unpack_tuple(builder, array.shape)[-1]

    def at(self, row: Any) -> Any:
        return self.builder.add(self.begin, self.builder.mul(self.stride, row))


def _partial_sums(
    builder: Any, rows: Sequence[Any], columns: Sequence[Any], width: Any, padded: Any
) -> list[Any]:
    """Sixteen partial sums of the product of each column with each row, kept in registers through the loop.

    The last step reads the last LANES floats of a row wherever they begin: queries are laid out for that.
    """
    whole = builder.mul(builder.sub(padded, INT64(LANES)), INT64(BYTES))  # bytes before the last step
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed("<", INT64(0), whole), loop, after)
    builder.position_at_end(loop)
    offset = builder.phi(INT64)
    offset.add_incoming(INT64(0), before)
    carried = [builder.phi(VECTOR) for _ in range(len(rows) * len(columns))]
    following = _step(builder, carried, rows, columns, offset, offset)
    further = builder.add(offset, INT64(BYTES * LANES))
    offset.add_incoming(further, loop)
    builder.cbranch(builder.icmp_signed("<", further, whole), loop, after)
    builder.position_at_end(after)
    ended = [builder.phi(VECTOR) for _ in carried]
    zeros = ir.Constant(VECTOR, [0.0] * LANES)
    for inside, outside, value in zip(carried, ended, following, strict=True):
        inside.add_incoming(zeros, before)
        inside.add_incoming(value, loop)
        outside.add_incoming(zeros, before)
        outside.add_incoming(value, loop)
    last = builder.mul(builder.sub(width, INT64(LANES)), INT64(BYTES))
    return _step(builder, ended, rows, columns, last, whole)


def _step(builder: Any, parts: Sequence[Any], rows: Any, columns: Any, there: Any, here: Any) -> list[Any]:
    """Partial sums plus the products of LANES more floats, at byte `there` of rows and byte `here` of columns."""
    items = [_load(builder, builder.add(row, there)) for row in rows]
    users = [_load(builder, builder.add(column, here)) for column in columns]
    pairs = [(item, user) for user in users for item in items]
    return [
        builder.fadd(part, builder.fmul(item, user, flags=FUSED), flags=FUSED)
        for part, (item, user) in zip(parts, pairs, strict=True)
    ]


def _above(builder: Any, parts: list[Any], threshold: Any, out: Any) -> Any:
    """Write the sums to `out`; return a bit mask of those above their threshold. Comparison with NaN is false."""
    for first, second in ROUNDS:
        parts = [
            builder.fadd(_shuffled(builder, a, b, first), _shuffled(builder, a, b, second))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    builder.store(parts[0], builder.inttoptr(out, VECTOR.as_pointer()), align=BYTES)
    above = builder.fcmp_ordered(">", parts[0], _load(builder, threshold))
    return builder.zext(builder.bitcast(above, ir.IntType(LANES)), INT64)


def _shuffled(builder: Any, a: Any, b: Any, mask: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask))


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, VECTOR.as_pointer()), align=BYTES)
