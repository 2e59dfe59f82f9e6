"""Blocks of a matrix product written as LLVM vector instructions, which plain loops do not fill.

A block is ROWS rows by LANES columns whose sums stay in registers over the inner axis; nothing is stored before a sum
is complete. Numba caches compiled callers by the text of `cpu_kernel.py`: edit that file too after a change here.
"""

from typing import Any, cast

from numba.core import cgutils, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

tools: Any = cgutils
ir, features = tools.ir, cast(Any, get_host_cpu_features)()
HAS_WIDE_REGISTERS = "+avx512f" in features
WIDE = 16 if HAS_WIDE_REGISTERS else 8  # floats in a vector register
VECTORS = 4 if HAS_WIDE_REGISTERS else 2  # as many sums as fit into registers
ROWS = 4
LANES = VECTORS * WIDE
BYTES = 4  # per float

FLOAT, INT64 = ir.FloatType(), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, WIDE)
FUSED = ("contract",)  # multiply and add may be fused


def _product_block(context: Any, left: Any, start: Any, right: Any, row: Any, lane: Any, out: Any) -> Any:
    """out = start + left right for ROWS rows from `row` and LANES columns from `lane`.

    left [R, I], start [R], right [I, lanes], out [R, lanes], all float32; I >= 1.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> None:
        matrix, first, other, target = (
            _Array(context, builder, signature.args[n], args[n]) for n in (0, 1, 2, 5)
        )
        sums = _sums(builder, matrix, first, other, args[3], args[4])
        for number, own in enumerate(sums):
            places = target.vectors(builder.add(args[3], INT64(number)), args[4])
            for value, place in zip(own, places, strict=True):
                builder.store(value, place, align=BYTES)

    return types.void(left, start, right, types.int64, types.int64, out), emit


def _attend_block(
    context: Any, left: Any, start: Any, right: Any, row: Any, lane: Any, weight: Any, slope: Any, out: Any
) -> Any:
    """out [lanes] += weight prelu(start + left right) for the same block; weight [R]."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> None:
        matrix, first, other = (_Array(context, builder, signature.args[n], args[n]) for n in (0, 1, 2))
        factors, target = (_Array(context, builder, signature.args[n], args[n]) for n in (5, 7))
        sums = _sums(builder, matrix, first, other, args[3], args[4])
        places = target.vectors(args[4])
        totals = [builder.load(place, align=BYTES) for place in places]
        negative_slope = _broadcast(builder, args[6])
        for number, own in enumerate(sums):
            factor = _broadcast(builder, factors.number(builder.add(args[3], INT64(number))))
            activated = [_prelu(builder, value, negative_slope) for value in own]
            totals = [
                _add(builder, total, factor, value) for total, value in zip(totals, activated, strict=True)
            ]
        for value, place in zip(totals, places, strict=True):
            builder.store(value, place, align=BYTES)

    return types.void(left, start, right, types.int64, types.int64, weight, types.float32, out), emit


product_block: Any = intrinsic(_product_block)
attend_block: Any = intrinsic(_attend_block)


class _Array:
    """Loads and addresses of an array."""

    def __init__(self, context: Any, builder: Any, kind: Any, value: Any) -> None:
        array = context.make_array(kind)(context, builder, value)
        self.builder = builder
        self.begin = builder.ptrtoint(array.data, INT64)
        self.strides = tools.unpack_tuple(builder, array.strides)
        self.shape = tools.unpack_tuple(builder, array.shape)

    def number(self, *index: Any) -> Any:
        """One float."""
        return self.builder.load(self.builder.inttoptr(self._address(index), FLOAT.as_pointer()))

    def vectors(self, *index: Any) -> list[Any]:
        """Pointers to VECTORS consecutive vectors."""
        here = self._address(index)
        starts = [self.builder.add(here, INT64(BYTES * WIDE * number)) for number in range(VECTORS)]
        return [self.builder.inttoptr(start, VECTOR.as_pointer()) for start in starts]

    def _address(self, index: tuple[Any, ...]) -> Any:
        address = self.begin
        for stride, number in zip(self.strides, index, strict=True):
            address = self.builder.add(address, self.builder.mul(stride, number))
        return address


def _sums(builder: Any, left: _Array, start: _Array, right: _Array, row: Any, lane: Any) -> list[list[Any]]:
    """The sums of a block [ROWS][VECTORS], kept in registers through a loop over the inner axis."""
    rows = [builder.add(row, INT64(number)) for number in range(ROWS)]
    firsts = [_broadcast(builder, start.number(number)) for number in rows]
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    i = _carried(builder, INT64, INT64(0), before)
    carried = [[_carried(builder, VECTOR, first, before) for _ in range(VECTORS)] for first in firsts]
    factors = [builder.load(place, align=BYTES) for place in right.vectors(i, lane)]
    sums = []
    for number, own in zip(rows, carried, strict=True):
        scalar = _broadcast(builder, left.number(number, i))
        sums.append(
            [_add(builder, total, scalar, factor) for total, factor in zip(own, factors, strict=True)]
        )
    following = builder.add(i, INT64(1))
    i.add_incoming(following, loop)
    for own, new in zip(carried, sums, strict=True):
        for total, value in zip(own, new, strict=True):
            total.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, left.shape[1]), loop, after)
    builder.position_at_end(after)
    return sums


def _carried(builder: Any, kind: Any, first: Any, before: Any) -> Any:
    value = builder.phi(kind)
    value.add_incoming(first, before)
    return value


def _broadcast(builder: Any, number: Any) -> Any:
    """The same number in every lane."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
    return builder.shuffle_vector(first, undefined, mask)


def _add(builder: Any, total: Any, left: Any, right: Any) -> Any:
    return builder.fadd(total, builder.fmul(left, right, flags=FUSED), flags=FUSED)


def _prelu(builder: Any, x: Any, slope: Any) -> Any:
    above = builder.fcmp_ordered(">", x, ir.Constant(VECTOR, [0.0] * WIDE))
    return builder.select(above, x, builder.fmul(x, slope))
