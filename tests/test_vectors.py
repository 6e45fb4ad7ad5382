"""Arithmetic on vectors: its formulas and orders, and the same bits from the compiled library and without it."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedtrip import vectors
from fedtrip.native import plain
from fedtrip.native.library import library

SIZES = st.one_of(st.integers(0, 70), st.sampled_from([255, 1023, plain.PART - 1, plain.PART, plain.PART + 17]))


def numbers(*shape, seed=0, spread=3.0):
    """float32 numbers of both signs over several powers of ten, so that another order of a sum has other bits."""
    rng = np.random.default_rng([seed, *shape])
    return torch.from_numpy((rng.standard_normal(shape) * 10 ** rng.uniform(-spread, spread, shape)).astype(np.float32))


def in_lanes(terms):
    """The sum as it is promised, in plain Python: 16 lanes, then halves."""
    lanes = [0.0] * 16
    for i, term in enumerate(terms):
        lanes[i % 16] += term
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


@pytest.fixture(params=["library", "plain"])
def _way(request, monkeypatch):
    """Each test with the library and without it."""
    if request.param == "plain":
        monkeypatch.setattr(vectors, "library", lambda: None)
    elif library() is None:
        pytest.skip("there is no compiled library")


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("n", [0, 1, 5, 16, 17, 100, 5000, plain.PART + 40])
def test_a_sum_is_made_in_sixteen_lanes(n):
    x, y = numbers(n, seed=1), numbers(n, seed=2)
    products = [a * b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert vectors.total(x) == in_lanes(x.tolist())
    assert vectors.total(x.double() / 3) == in_lanes((x.double() / 3).tolist())
    assert vectors.dot(x, y) == in_lanes(products)
    assert vectors.norm(x) == math.sqrt(in_lanes([a * a for a in x.tolist()]))
    assert vectors.dot(x, y) == pytest.approx(math.fsum(products), abs=1e-14 * math.fsum(map(abs, products)))
    if n >= 100:  # the numbers tell orders apart
        assert in_lanes(products) != sum(products)
        assert in_lanes(products) != in_lanes(reversed(products))


@pytest.mark.usefixtures("_way")
def test_a_product_is_rounded_before_it_is_added():
    # (1 + 2⁻¹²)² = 1 + 2⁻¹¹ + 2⁻²⁴: rounded to float32 the last term is gone. A fused multiply-add would keep it.
    x, y = torch.full((40,), 1 + 2**-12), torch.full((40,), -(1 + 2**-11))
    assert vectors.axpy(y, 1 + 2**-12, x) is y
    assert y.tolist() == [0.0] * 40
    # The same in float64: (1 + 2⁻²³)(1 + 2⁻³⁰) = 1 + 2⁻²³ + 2⁻³⁰ + 2⁻⁵³.
    x, sums = torch.full((40,), 1 + 2**-23), torch.full((40,), -(1 + 2**-23 + 2**-30), dtype=torch.float64)
    assert vectors.add_weighted(sums, x, 1 + 2**-30) is sums
    assert sums.tolist() == [0.0] * 40


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("n", [0, 1, 17, plain.PART + 1])
def test_axpy_and_add_weighted_are_the_elementwise_expressions(n):
    x, y = numbers(n, seed=3), numbers(n, seed=4)
    assert torch.equal(vectors.axpy(y.clone(), 0.4, x), y + 0.4 * x)
    assert torch.equal(vectors.axpy(y.double(), 0.4, x.double()), y.double() + 0.4 * x.double())
    assert torch.equal(vectors.add_weighted(y.double(), x, 0.3), y.double() + 0.3 * x.double())


@pytest.mark.usefixtures("_way")
def test_what_does_not_lie_in_one_piece_is_taken_too():
    x, y = numbers(60, seed=5), numbers(60, seed=6)
    strided, expected = y.clone(), y.clone()
    vectors.axpy(strided[::3], 0.7, x[::3])
    expected[::3] += 0.7 * x[::3]
    assert torch.equal(strided, expected)
    assert vectors.dot(x[::3], y[::3]) == vectors.dot(x[::3].clone(), y[::3].clone())
    assert vectors.total(x[1::2]) == in_lanes(x[1::2].tolist())


def test_vectors_of_different_lengths_are_refused():
    for call in (
        lambda: vectors.axpy(torch.zeros(3), 1.0, torch.zeros(2)),
        lambda: vectors.add_weighted(torch.zeros(3, dtype=torch.float64), torch.zeros(1), 1.0),
        lambda: vectors.dot(torch.zeros(3), torch.zeros(4)),
        lambda: vectors.row_dots(torch.zeros(3, 2), torch.zeros(2, 3)),
    ):
        with pytest.raises(ValueError, match="must have the same"):
            call()


def test_the_square_root_is_rounded_right():
    x = numbers(20000, seed=7).abs()
    assert vectors.square_root(x.double()).tolist() == [math.sqrt(value) for value in x.tolist()]
    exact = np.array([math.sqrt(value) for value in x.tolist()]).astype(np.float32)  # float64 has bits enough
    assert np.array_equal(vectors.square_root(x).numpy(), exact)
    assert vectors.square_root(x, out=x) is x
    assert np.array_equal(x.numpy(), exact)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (4, 10), (3, 16), (2, 47), (5, 100)])
def test_rows_are_vectors(shape):
    x, y = numbers(*shape, seed=8), numbers(*shape, seed=9)
    assert vectors.row_dots(x, y).tolist() == [vectors.dot(a, b) for a, b in zip(x, y, strict=True)]
    for row, logits in zip(vectors.softmax_rows(x, 0.7), x.double() / 0.7, strict=True):
        powers = vectors._exp(logits - logits.max())
        assert row.tolist() == (powers / vectors.total(powers)).tolist()
    torch.testing.assert_close(
        vectors.softmax_rows(x, 0.7), torch.softmax(x.double() / 0.7, 1), rtol=1e-13, atol=1e-300
    )


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (1, 1, 1), (4, 9, 37), (9, 4, 100)])
def test_products_of_rows_are_dots_of_vectors(sizes):
    one, other, columns = sizes
    x, y = numbers(one, columns, seed=8, spread=1), numbers(other, columns, seed=9, spread=1)
    found = vectors.row_products(x, y)
    assert found.shape == (one, other)
    assert found.dtype is torch.float64
    assert found.tolist() == [[vectors.dot(a, b) for b in y] for a in x]
    torch.testing.assert_close(found, x.double() @ y.double().T, rtol=1e-10, atol=1e-9)


@pytest.mark.usefixtures("_way")
def test_exp_is_right_to_the_last_bits():
    x = torch.linspace(-708, 709, 30001, dtype=torch.float64)
    for value, power in zip(x.tolist(), vectors._exp(x).tolist(), strict=True):
        assert abs(power - math.exp(value)) <= 2 * math.ulp(math.exp(value))
    ends = torch.tensor([0.0, -0.0, -709.0, 710.0, -math.inf, math.inf, math.nan], dtype=torch.float64)
    assert str(vectors._exp(ends).tolist()) == "[1.0, 1.0, 0.0, inf, 0.0, inf, nan]"


@pytest.mark.usefixtures("_way")
def test_the_sigmoid():
    x = torch.tensor([0.0, math.log(3), -math.log(3), 1000.0, -1000.0, -40.0], dtype=torch.float64)
    assert vectors.sigmoid(x).tolist() == pytest.approx([0.5, 0.75, 0.25, 1.0, 0.0, math.exp(-40)], rel=1e-15)
    assert vectors.sigmoid(torch.tensor([math.nan])).isnan().all()


@pytest.mark.usefixtures("_way")
def test_what_is_not_finite_passes_silently():
    bad = torch.tensor([math.inf, -math.inf, math.nan, 3e38])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(vectors.total(bad))
        assert vectors.axpy(bad.clone(), 2.0, bad)[3] == math.inf
        assert vectors.add_weighted(torch.zeros(4, dtype=torch.float64), bad, 2.0)[1] == -math.inf
        assert vectors.softmax_rows(bad[None], 1.0).isnan().all()
        assert vectors.softmax_rows(torch.tensor([[-math.inf, 0.0]]), 1.0).tolist() == [[0.0, 1.0]]
        assert vectors.square_root(-torch.ones(1)).isnan().all()


@pytest.mark.skipif(library() is None, reason="there is no compiled library")
@settings(max_examples=60, deadline=None)
@given(n=SIZES, seed=st.integers(0, 1000), a=st.floats(-1e3, 1e3))
def test_the_library_and_plain_numpy_have_the_same_bits(n, seed, a):
    x, y = numbers(n, seed=seed), numbers(n, seed=seed + 1)
    assert vectors.total(x) == plain.total(x.numpy())
    assert vectors.total(x.double()) == plain.total(x.double().numpy())
    assert vectors.dot(x, y) == plain.dot(x.numpy(), y.numpy())
    by_hand, sums = y.numpy().copy(), y.double().numpy()
    plain.axpy(by_hand, a, x.numpy())
    plain.add_weighted(sums, x.numpy(), a)
    assert vectors.axpy(y.clone(), a, x).numpy().tobytes() == by_hand.tobytes()
    assert vectors.add_weighted(y.double(), x, a).numpy().tobytes() == sums.tobytes()
    small = 20 * x.double() / (1 + x.double().abs())
    assert vectors._exp(small).numpy().tobytes() == plain.exp(small.numpy()).tobytes()


@pytest.mark.skipif(library() is None, reason="there is no compiled library")
@settings(max_examples=60, deadline=None)
@given(rows=st.integers(0, 9), columns=st.integers(1, 70), seed=st.integers(0, 1000), temperature=st.floats(0.1, 10))
def test_the_library_and_plain_numpy_have_the_same_bits_in_rows(rows, columns, seed, temperature):
    x, y = numbers(rows, columns, seed=seed, spread=1), numbers(rows, columns, seed=seed + 1)
    assert vectors.row_dots(x, y).numpy().tobytes() == plain.row_dots(x.numpy(), y.numpy()).tobytes()
    softmax = plain.softmax_rows(x.numpy(), temperature)
    assert vectors.softmax_rows(x, temperature).numpy().tobytes() == softmax.tobytes()


@pytest.mark.usefixtures("_way")
def test_parameters_with_gradient_are_numbers_too():
    layer = nn.Linear(3, 2)
    assert vectors.norm(layer.weight) == vectors.norm(layer.weight.detach())
