"""Sixteen inner products at once, written for the CPU's vector unit: what a scan of vectors is made of.

A product is summed in sixteen parts along the width, then the parts are added in pairs, always the same ones: its bits
depend on the two vectors alone, not on how many queries are asked together nor on where a block of vectors begins.
Compiled code that uses a tile is kept beside `scan.py`: touch that file after a change here.
"""

from collections.abc import Sequence
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16  # products in a tile, and floats of a vector that are read at once
SIDE = 4  # vectors, and queries, of a square tile
TALL = 4  # vectors whose parts are carried side by side in a tile of one query
BYTES = 4  # of a float

tools: Any = cgutils
ir = tools.ir
FLOAT, WHOLE = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, LANES)
FUSED = ("contract",)  # a product and a sum may be one instruction

FOURS = range(0, LANES, 4)
# Which floats of two vectors come together, (first, second) of every round; the two are added. Sixteen vectors of
# parts go into four rounds, one comes out: its lane n is the sum of vector n.
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


def _tall_tile(context: Any, vectors: Any, row: Any, queries: Any, query: Any, bars: Any, out: Any) -> Any:
    """LANES vectors from `row` times one query into `out` [LANES]; a bit for every product above its bar.

    vectors [N, D], D >= LANES; queries [B, chunks * LANES], as `scan.laid` lays them; bars [B, LANES]; all float32.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        items, asked, bar, target = (
            _Rows(context, builder, signature.args[n], args[n]) for n in (0, 2, 4, 5)
        )
        parts: list[Any] = []
        for first in range(0, LANES, TALL):
            rows = [items.at(builder.add(args[1], WHOLE(first + n))) for n in range(TALL)]
            parts += _parts(builder, rows, [asked.at(args[3])], items.width, asked.width)
        return _judged(builder, parts, bar.at(args[3]), target.begin)

    return types.int64(vectors, types.int64, queries, types.int64, bars, out), emit


def _square_tile(context: Any, vectors: Any, row: Any, queries: Any, query: Any, bars: Any, out: Any) -> Any:
    """SIDE vectors from `row` times SIDE queries from `query`, query by query.

    All is as in a tall tile, but bars [B / SIDE, LANES] have a row for SIDE queries.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        items, asked, bar, target = (
            _Rows(context, builder, signature.args[n], args[n]) for n in (0, 2, 4, 5)
        )
        rows = [items.at(builder.add(args[1], WHOLE(n))) for n in range(SIDE)]
        columns = [asked.at(builder.add(args[3], WHOLE(n))) for n in range(SIDE)]
        parts = _parts(builder, rows, columns, items.width, asked.width)
        return _judged(builder, parts, bar.at(builder.sdiv(args[3], WHOLE(SIDE))), target.begin)

    return types.int64(vectors, types.int64, queries, types.int64, bars, out), emit


tall_tile: Any = intrinsic(_tall_tile)
square_tile: Any = intrinsic(_square_tile)


class _Rows:
    """The rows of an array by their addresses."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder = builder
        self.begin = builder.ptrtoint(array.data, WHOLE)
        self.stride = tools.unpack_tuple(builder, array.strides)[0]
        self.width = tools.unpack_tuple(builder, array.shape)[-1]

    def at(self, row: Any) -> Any:
        return self.builder.add(self.begin, self.builder.mul(self.stride, row))


def _parts(builder: Any, rows: Sequence[Any], columns: Sequence[Any], width: Any, laid: Any) -> list[Any]:
    """Sixteen parts of the product of each column with each row, from a loop that carries them in registers.

    The last step reads the last floats of a row wherever they begin: queries are laid out for that.
    """
    whole = builder.mul(builder.sub(laid, WHOLE(LANES)), WHOLE(BYTES))  # bytes before the last step
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.cbranch(builder.icmp_signed("<", WHOLE(0), whole), loop, after)
    builder.position_at_end(loop)
    offset = builder.phi(WHOLE)
    offset.add_incoming(WHOLE(0), before)
    carried = [builder.phi(VECTOR) for _ in range(len(rows) * len(columns))]
    following = _step(builder, carried, rows, columns, offset, offset)
    further = builder.add(offset, WHOLE(BYTES * LANES))
    offset.add_incoming(further, loop)
    builder.cbranch(builder.icmp_signed("<", further, whole), loop, after)
    builder.position_at_end(after)
    ended = [builder.phi(VECTOR) for _ in carried]
    nothing = ir.Constant(VECTOR, [0.0] * LANES)
    for inside, outside, value in zip(carried, ended, following, strict=True):
        inside.add_incoming(nothing, before)
        inside.add_incoming(value, loop)
        outside.add_incoming(nothing, before)
        outside.add_incoming(value, loop)
    last = builder.mul(builder.sub(width, WHOLE(LANES)), WHOLE(BYTES))
    return _step(builder, ended, rows, columns, last, whole)


def _step(builder: Any, parts: Sequence[Any], rows: Any, columns: Any, there: Any, here: Any) -> list[Any]:
    """Parts with the products of LANES more floats, `there` bytes into the rows and `here` bytes into the columns."""
    items = [_load(builder, builder.add(row, there)) for row in rows]
    asked = [_load(builder, builder.add(column, here)) for column in columns]
    pairs = [(item, one) for one in asked for item in items]
    return [
        builder.fadd(part, builder.fmul(item, one, flags=FUSED), flags=FUSED)
        for part, (item, one) in zip(parts, pairs, strict=True)
    ]


def _judged(builder: Any, parts: list[Any], bar: Any, out: Any) -> Any:
    """The sums of all parts, written to `out`; a bit for each that lies above its bar. Nothing lies above NaN."""
    for first, second in ROUNDS:
        parts = [
            builder.fadd(_mixed(builder, a, b, first), _mixed(builder, a, b, second))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    builder.store(parts[0], builder.inttoptr(out, VECTOR.as_pointer()), align=BYTES)
    above = builder.fcmp_ordered(">", parts[0], _load(builder, bar))
    return builder.zext(builder.bitcast(above, ir.IntType(LANES)), WHOLE)


def _mixed(builder: Any, one: Any, two: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(ir.IntType(32), LANES), places))


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, VECTOR.as_pointer()), align=BYTES)
