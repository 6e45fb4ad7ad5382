"""The functions of the library's headers (engine/*.h) and the layer they take, as ctypes sees them."""

from __future__ import annotations

import ctypes
from typing import Any

INTERFACE = 1
"""What `fedtrip_interface()` of a library that fits says."""

# Callers pass arrays as addresses: numpy's `array.ctypes.data`, torch's `tensor.data_ptr()`, None for null.
_array = ctypes.c_void_p
_chain = ctypes.c_void_p
_whole = ctypes.c_int64
_key = ctypes.c_uint64
_float = ctypes.c_float
_double = ctypes.c_double
_text = ctypes.c_char_p
_code = ctypes.c_int

FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fedtrip_interface": (_whole, ()),
    "fedtrip_kernels": (_text, ()),
    "fedtrip_choose": (_code, (_text,)),
    "fedtrip_problem": (_text, ()),
    # layers, count, channels, height, width, flat, parameters, tap
    "fedtrip_chain_new": (_chain, (_array, _whole, _whole, _whole, _whole, _whole, _whole, _whole)),
    "fedtrip_chain_free": (None, (_chain,)),
    # chain, w, m, x, labels, order, samples, epochs, batch, lr, beta, a, c, key
    "fedtrip_chain_train": (
        _code,
        (
            *(_chain, _array, _array, _array, _array, _array),
            *(_whole, _whole, _whole, _float, _float, _float, _array, _key),
        ),
    ),
    # chain, w, x, labels, rows, n, loss, hits
    "fedtrip_chain_evaluate": (_code, (_chain, _array, _array, _array, _array, _whole, _array, _array)),
    # chain, w, x, rows, n, mode, key, step, outputs, tapped
    "fedtrip_chain_forward": (
        _code,
        (_chain, _array, _array, _array, _whole, _whole, _key, _key, _array, _array),
    ),
    # chain, n, d_outputs, d_tapped, g, accumulate
    "fedtrip_chain_backward": (_code, (_chain, _whole, _array, _array, _array, _whole)),
    # z, labels, rows, n, classes, scale, d
    "fedtrip_softmax_gradient": (None, (_array, _array, _array, _whole, _whole, _float, _array)),
    # z, labels, rows, n, classes, loss, hits
    "fedtrip_softmax_sums": (None, (_array, _array, _array, _whole, _whole, _array, _array)),
    # w, m, g, c, n, lr, beta, a
    "fedtrip_sgd_step": (None, (_array, _array, _array, _array, _whole, _float, _float, _float)),
    # x, n, y
    "fedtrip_exp": (None, (_array, _whole, _array)),
    "fedtrip_log": (None, (_array, _whole, _array)),
    # y, a, x, n
    "fedtrip_axpy": (None, (_array, _float, _array, _whole)),
    # sum, x, n, weight
    "fedtrip_add_weighted": (None, (_array, _array, _whole, _double)),
    # x, n; of the dot product x, y, n
    "fedtrip_total": (_double, (_array, _whole)),
    "fedtrip_total_double": (_double, (_array, _whole)),
    "fedtrip_dot": (_double, (_array, _array, _whole)),
    # x, y, rows, columns, dots
    "fedtrip_row_dots": (None, (_array, _array, _whole, _whole, _array)),
    # z, rows, columns, temperature, softmax
    "fedtrip_softmax_rows": (None, (_array, _whole, _whole, _double, _array)),
    # x, n, y
    "fedtrip_exp_double": (None, (_array, _whole, _array)),
}
"""Function → what it returns, and what it takes."""


class Layer(ctypes.Structure):
    """`fedtrip_layer`: one layer of a chain; what its kind does not use is 0."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("kind", "inputs", "outputs", "kernel_h", "kernel_w", "stride_h")),
        *((name, ctypes.c_int64) for name in ("stride_w", "pad_h", "pad_w", "out_h", "out_w", "weight", "bias")),
        ("divisor", ctypes.c_int64),
        ("probability", ctypes.c_double),
    )
