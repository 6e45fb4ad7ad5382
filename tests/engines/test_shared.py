"""Tensors through shared memory: the same values on the other side, whatever their type and shape."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtrip.engines.shared import ALIGNMENT, SharedBlock

DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.float16]


@given(
    st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 5), max_size=4)), max_size=5
    )
)  # fmt: skip
def test_what_is_written_is_read(described):
    tensors = {
        str(number): (torch.rand(shape) * 200).to(dtype) for number, (dtype, shape) in enumerate(described)
    }  # fmt: skip
    block = SharedBlock()
    layout = block.write(tensors)
    assert all(place.offset % ALIGNMENT == 0 for place in layout.values())
    read = SharedBlock(block.descriptor).read(layout)
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype
        assert read[name].shape == tensor.shape
        assert torch.equal(read[name], tensor)
    block.close()


def test_the_reader_sees_a_block_that_has_grown_and_its_older_views_stay_valid():
    writer = SharedBlock()
    reader = SharedBlock(writer.descriptor)
    small = reader.read(writer.write({"w": torch.arange(3.0)}))["w"]
    large = reader.read(writer.write({"w": torch.arange(100_000.0)}))["w"]
    assert torch.equal(large, torch.arange(100_000.0))
    assert torch.equal(small, torch.arange(3.0))
    again = reader.read(writer.write({"w": torch.full((3,), 7.0)}))["w"]
    assert torch.equal(again, torch.full((3,), 7.0))
    assert torch.equal(small, again)
    writer.close()


def test_strided_tensors_are_written_by_value():
    block = SharedBlock()
    strided = torch.arange(12.0).view(3, 4).T
    assert torch.equal(block.read(block.write({"x": strided}))["x"], strided)
    block.close()


def test_what_is_appended_lies_behind_the_rest_until_the_block_is_rewound():
    block = SharedBlock()
    first = block.append({"w": torch.arange(3.0)})
    second = block.append({"w": torch.arange(100.0)})
    assert torch.equal(block.read(first)["w"], torch.arange(3.0))
    assert torch.equal(block.read(second)["w"], torch.arange(100.0))
    block.rewind()
    assert block.append({"w": torch.zeros(3)})["w"].offset == 0
    assert torch.equal(block.read(first)["w"], torch.zeros(3))
    block.close()


def test_a_tensor_with_two_names_is_there_once():
    block = SharedBlock()
    w = torch.arange(100.0)
    layout = block.write({"upload": w, "memory": w, "part": w[:50], "copy": w.clone()})
    assert layout["upload"] == layout["memory"]
    assert len({place.offset for place in layout.values()}) == 3
    read = block.read(layout)
    assert torch.equal(read["memory"], w)
    assert torch.equal(read["part"], w[:50])
    assert torch.equal(read["copy"], w)
    block.close()


def test_nothing_has_a_name_in_the_file_system_and_closing_twice_closes_nothing_else():
    block = SharedBlock()
    assert os.fstat(block.descriptor).st_nlink == 0
    descriptor = block.descriptor
    block.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    other = os.open(os.devnull, os.O_RDONLY)
    block.close()
    os.fstat(other)
    os.close(other)
