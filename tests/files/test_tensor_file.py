"""The safetensors format, as the library itself reads it."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from fedtrip.files import tensor_file
from fedtrip.files.tensor_file import save_file

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=3)),
        max_size=6,
    )
)
def test_the_library_reads_what_was_written(tmp_path_factory, described):
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    generator = torch.Generator().manual_seed(1)
    vectors = {
        name: (torch.rand(shape, generator=generator) * 100).to(kind) for name, (kind, shape) in described.items()
    }
    save_file(vectors, path, {"fedtrip": "é"})
    read = load_file(path)
    assert read.keys() == vectors.keys()
    for name, vector in vectors.items():
        assert (read[name].dtype, read[name].shape) == (vector.dtype, vector.shape)
        assert torch.equal(read[name], vector)
    with safe_open(path, framework="pt") as stored:
        assert stored.metadata() == {"fedtrip": "é"}


def test_what_the_system_writes_in_pieces_is_whole(tmp_path, monkeypatch):
    writev = os.writev
    monkeypatch.setattr(tensor_file.os, "writev", lambda fd, parts: writev(fd, [memoryview(parts[0])[:1000]]))
    vectors = {"a": torch.arange(2000.0), "b": torch.arange(3)}
    save_file(vectors, tmp_path / "a", {})
    assert {name: v.tolist() for name, v in load_file(tmp_path / "a").items()} == {
        name: v.tolist() for name, v in vectors.items()
    }


def test_types_that_are_not_known_here_are_left_to_the_library(tmp_path):
    try:
        save_file({"a": torch.ones(2, dtype=torch.complex64)}, tmp_path / "a", {"x": "y"})
    except Exception as problem:
        pytest.skip(f"neither does the library: {problem}")
    assert load_file(tmp_path / "a")["a"].dtype == torch.complex64
