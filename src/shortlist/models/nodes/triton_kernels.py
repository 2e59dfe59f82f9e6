"""The GPU kernels of `triton_attention`: values and gradients of the attention unit for some nodes of one user."""

# mypy: disable-error-code="untyped-decorator,no-untyped-def"
# ruff: noqa: N803, PLR0915 - compile-time sizes are upper case, and a kernel is one function

try:
    import triton
    import triton.language as tl
except ImportError:  # pragma: no cover - one of the two branches runs on any machine
    triton = None

HAS_TRITON: bool = triton is not None

if triton is not None:

    @triton.jit
    def _grid(ptr, rows, row_step, columns, column_step, n_rows, n_columns):
        """A tile of a matrix, 0 outside of it."""
        inside = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        return tl.load(
            ptr + rows[:, None] * row_step + columns[None, :] * column_step, mask=inside, other=0.0
        )

    @triton.jit
    def _with_ones(ptr, rows, row_step, d, d_step, n_rows, width):
        """Vectors with a 1 in the column after them."""
        part = _grid(ptr, rows, row_step, d, d_step, n_rows, width)
        return tl.where(d[None, :] == width, 1.0, part.to(tl.float32)).to(ptr.dtype.element_ty)

    @triton.jit
    def _line(ptr, places, step, count):
        return tl.load(ptr + places * step, mask=places < count, other=0.0).to(tl.float32)

    @triton.jit
    def _dot(x, y, PRECISE: tl.constexpr):
        return tl.dot(x, y, input_precision="ieee" if PRECISE else "tf32")

    @triton.jit
    def _left(w, wp, pn, d, width):
        """The left factor of [a; 1] in the bracket: [w * wp; pn]."""
        return tl.where(d[None, :] == width, pn[:, None], w.to(tl.float32) * wp[None, :]).to(w.dtype)

    @triton.jit
    def _bracket(left, across, pa, PRECISE: tl.constexpr):
        return _dot(left, across, PRECISE) + pa[None, :]

    @triton.jit
    def _prelu(left, across, pa, slope, t, PRECISE: tl.constexpr):
        """slope * linear part + (1 - slope) * sum of the maxima; `left` and `pa` are sums over h."""
        return slope * _bracket(left, across, pa, PRECISE) + (1 - slope) * t

    @triton.jit
    def _column(values, d, width):
        """The column of the ones."""
        return tl.sum(tl.where(d[None, :] == width, values, 0.0), 1)

    @triton.jit
    def _put(ptr, rows, columns, n_rows, n_columns, values):
        inside = (rows[:, None] < n_rows) & (columns[None, :] < n_columns)
        tl.store(
            ptr + rows[:, None] * n_columns + columns[None, :], values.to(ptr.dtype.element_ty), mask=inside
        )

    @triton.jit
    def forward(
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, max_history, width, hidden, w2_ptr, slope_ptr, out_ptr,
        C1: tl.constexpr, C2: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
        D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """Some nodes of one user against the whole history."""
        u = tl.program_id(0).to(tl.int64)
        a_ptr, pa_ptr, w_ptr, pn_ptr = a_ptr + u * a_u, pa_ptr + u * pa_u, w_ptr + u * w_u, pn_ptr + u * pn_u
        out_ptr += u * count * max_history
        d = tl.arange(0, D)
        c1 = tl.program_id(1) * (C1 + C2) + tl.arange(0, C1)
        w1 = _grid(w_ptr, c1, w_c, d, w_d, count, width)
        if C2 > 0:
            c2 = tl.program_id(1) * (C1 + C2) + C1 + tl.arange(0, C2)
            w2 = _grid(w_ptr, c2, w_c, d, w_d, count, width)
        slope = tl.load(slope_ptr)
        for first in range(0, max_history, K1 + K2):
            k1 = first + tl.arange(0, K1)
            a1 = tl.trans(_with_ones(a_ptr, k1, a_k, d, a_d, max_history, width))  # [D, K1]
            t11 = tl.zeros((C1, K1), dtype=tl.float32)
            sum_wp, sum_n1 = tl.zeros((D,), dtype=tl.float32), tl.zeros((C1,), dtype=tl.float32)
            sum_a1 = tl.zeros((K1,), dtype=tl.float32)
            if C2 > 0:
                t21 = tl.zeros((C2, K1), dtype=tl.float32)
                sum_n2 = tl.zeros((C2,), dtype=tl.float32)
            if K2 > 0:
                k2 = first + K1 + tl.arange(0, K2)
                a2 = tl.trans(_with_ones(a_ptr, k2, a_k, d, a_d, max_history, width))
                sum_a2 = tl.zeros((K2,), dtype=tl.float32)
                t12 = tl.zeros((C1, K2), dtype=tl.float32)
                if C2 > 0:
                    t22 = tl.zeros((C2, K2), dtype=tl.float32)
            for h in range(hidden):
                wp = _line(wp_ptr + h * width, d, 1, width)
                share = tl.load(w2_ptr + h)
                pn1 = _line(pn_ptr + h * pn_h, c1, pn_c, count)
                pa1 = _line(pa_ptr + h * pa_h, k1, pa_k, max_history)
                left1 = _left(w1, wp, pn1, d, width)
                sum_wp += share * wp
                sum_n1 += share * pn1
                sum_a1 += share * pa1
                t11 += share * tl.maximum(_bracket(left1, a1, pa1, PRECISE), 0.0)
                if K2 > 0:
                    pa2 = _line(pa_ptr + h * pa_h, k2, pa_k, max_history)
                    sum_a2 += share * pa2
                    t12 += share * tl.maximum(_bracket(left1, a2, pa2, PRECISE), 0.0)
                if C2 > 0:
                    pn2 = _line(pn_ptr + h * pn_h, c2, pn_c, count)
                    left2 = _left(w2, wp, pn2, d, width)
                    sum_n2 += share * pn2
                    t21 += share * tl.maximum(_bracket(left2, a1, pa1, PRECISE), 0.0)
                    if K2 > 0:
                        t22 += share * tl.maximum(_bracket(left2, a2, pa2, PRECISE), 0.0)
            left1 = _left(w1, sum_wp, sum_n1, d, width)
            _put(out_ptr, c1, k1, count, max_history, _prelu(left1, a1, sum_a1, slope, t11, PRECISE))
            if K2 > 0:
                _put(out_ptr, c1, k2, count, max_history, _prelu(left1, a2, sum_a2, slope, t12, PRECISE))
            if C2 > 0:
                left2 = _left(w2, sum_wp, sum_n2, d, width)
                _put(out_ptr, c2, k1, count, max_history, _prelu(left2, a1, sum_a1, slope, t21, PRECISE))
                if K2 > 0:
                    _put(out_ptr, c2, k2, count, max_history, _prelu(left2, a2, sum_a2, slope, t22, PRECISE))

    @triton.jit
    def backward(
        a_ptr, pa_ptr, w_ptr, pn_ptr, wp_ptr,
        a_u, a_k, a_d, pa_u, pa_k, pa_h, w_u, w_c, w_d, pn_u, pn_c, pn_h,
        count, max_history, width, hidden, w2_ptr, slope_ptr, dt_ptr,
        da_ptr, above_a_ptr, dw_ptr, above_n_ptr, part_ptr,
        C1: tl.constexpr, C2: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
        D: tl.constexpr, PRECISE: tl.constexpr,
    ):  # fmt: skip
        """All gradients from some nodes of one user; the bracket is recomputed, dt is read once.

        Every h uses the part of dt where its bracket is positive; one more iteration, with a bracket of 1, uses all
        of dt, which the linear part needs.
        """
        u, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
        place, columns = chunk * tl.num_programs(0) + u, hidden + 1
        a_ptr, pa_ptr, w_ptr, pn_ptr = a_ptr + u * a_u, pa_ptr + u * pa_u, w_ptr + u * w_u, pn_ptr + u * pn_u
        dt_ptr += u * count * max_history
        dw_ptr, above_n_ptr = dw_ptr + u * count * width, above_n_ptr + u * count * columns
        da_ptr, above_a_ptr = (
            da_ptr + place * max_history * width,
            above_a_ptr + place * max_history * columns,
        )
        part_ptr += place * columns * D
        d = tl.arange(0, D)
        c1 = chunk * (C1 + C2) + tl.arange(0, C1)
        w1 = _with_ones(w_ptr, c1, w_c, d, w_d, count, width)
        dw1 = tl.zeros((C1, D), dtype=tl.float32)
        if C2 > 0:
            c2 = chunk * (C1 + C2) + C1 + tl.arange(0, C2)
            w2 = _with_ones(w_ptr, c2, w_c, d, w_d, count, width)
            dw2 = tl.zeros((C2, D), dtype=tl.float32)
        slope = tl.load(slope_ptr)
        for first in range(0, max_history, K1 + K2):
            k1 = first + tl.arange(0, K1)
            a1 = _with_ones(a_ptr, k1, a_k, d, a_d, max_history, width)  # [K1, D]
            da1 = tl.zeros((K1, D), dtype=tl.float32)
            dt11 = _grid(dt_ptr, c1, max_history, k1, 1, count, max_history)
            if C2 > 0:
                dt21 = _grid(dt_ptr, c2, max_history, k1, 1, count, max_history)
            if K2 > 0:
                k2 = first + K1 + tl.arange(0, K2)
                a2 = _with_ones(a_ptr, k2, a_k, d, a_d, max_history, width)
                da2 = tl.zeros((K2, D), dtype=tl.float32)
                dt12 = _grid(dt_ptr, c1, max_history, k2, 1, count, max_history)
                if C2 > 0:
                    dt22 = _grid(dt_ptr, c2, max_history, k2, 1, count, max_history)
            total = tl.zeros((D,), dtype=tl.float32)
            for h in range(hidden + 1):
                more = h // hidden  # 1 in the additional iteration: wp and w2 end with zeros for it
                wp = _line(wp_ptr + h * width, d, 1, width)
                share = tl.load(w2_ptr + h)
                total += share * wp
                scale = (1 - slope) * share * wp + more * slope * total
                pn1 = _line(pn_ptr + h * pn_h, c1, pn_c, count * (1 - more)) + more
                pa1 = _line(pa_ptr + h * pa_h, k1, pa_k, max_history * (1 - more))
                left1 = _left(w1, wp, pn1, d, width)
                m11 = tl.where(_bracket(left1, tl.trans(a1), pa1, PRECISE) > 0, dt11, 0.0).to(w1.dtype)
                to_w1 = _dot(m11, a1, PRECISE)
                to_a1 = _dot(tl.trans(m11), w1, PRECISE)
                if K2 > 0:
                    pa2 = _line(pa_ptr + h * pa_h, k2, pa_k, max_history * (1 - more))
                    m12 = tl.where(_bracket(left1, tl.trans(a2), pa2, PRECISE) > 0, dt12, 0.0).to(w1.dtype)
                    to_w1 += _dot(m12, a2, PRECISE)
                    to_a2 = _dot(tl.trans(m12), w1, PRECISE)
                if C2 > 0:
                    pn2 = _line(pn_ptr + h * pn_h, c2, pn_c, count * (1 - more)) + more
                    left2 = _left(w2, wp, pn2, d, width)
                    m21 = tl.where(_bracket(left2, tl.trans(a1), pa1, PRECISE) > 0, dt21, 0.0).to(w1.dtype)
                    to_w2 = _dot(m21, a1, PRECISE)
                    to_a1 += _dot(tl.trans(m21), w2, PRECISE)
                    if K2 > 0:
                        m22 = tl.where(_bracket(left2, tl.trans(a2), pa2, PRECISE) > 0, dt22, 0.0)
                        m22 = m22.to(w1.dtype)
                        to_w2 += _dot(m22, a2, PRECISE)
                        to_a2 += _dot(tl.trans(m22), w2, PRECISE)
                    dw2 += to_w2 * scale[None, :]
                    _add(above_n_ptr + h, c2, columns, count, _column(to_w2, d, width), first > 0)
                dw1 += to_w1 * scale[None, :]
                da1 += to_a1 * scale[None, :]
                share_d = tl.sum(to_a1 * a1.to(tl.float32), 0)
                _add(above_n_ptr + h, c1, columns, count, _column(to_w1, d, width), first > 0)
                _add(above_a_ptr + h, k1, columns, max_history, _column(to_a1, d, width), False)
                if K2 > 0:
                    da2 += to_a2 * scale[None, :]
                    share_d += tl.sum(to_a2 * a2.to(tl.float32), 0)
                    _add(above_a_ptr + h, k2, columns, max_history, _column(to_a2, d, width), False)
                _add(part_ptr + h * D, d, 1, D, share_d, first > 0)
            _put(da_ptr, k1, d, max_history, width, da1)
            if K2 > 0:
                _put(da_ptr, k2, d, max_history, width, da2)
        _put(dw_ptr, c1, d, count, width, dw1)
        if C2 > 0:
            _put(dw_ptr, c2, d, count, width, dw2)

    @triton.jit
    def _add(ptr, places, step, count, values, again):
        """Write values, added to those of earlier iterations of the same program if `again`."""
        inside = places < count
        before = tl.load(ptr + places * step, mask=inside & again, other=0.0).to(tl.float32)
        tl.store(ptr + places * step, (before + values).to(ptr.dtype.element_ty), mask=inside)
