"""The idx reader: what it reads, and everything it must refuse, with the file and the fault in the message."""

from __future__ import annotations

import gzip
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtrip.data.idx import check_idx, read_idx, read_images, read_labels
from fedtrip.errors import UserError


def idx_bytes(shape: tuple[int, ...], body: bytes, kind: int = 8) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, kind, len(shape), *shape) + body


def write(folder: Path, content: bytes, packed: bool) -> Path:
    path = folder / ("file.gz" if packed else "file")
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_reads_what_was_written(tmp_path: Path, shape: tuple[int, ...], packed: bool) -> None:
    values = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    path = write(tmp_path, idx_bytes(shape, values.tobytes()), packed)
    np.testing.assert_array_equal(read_idx(path), values)
    assert check_idx(path) == shape


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "not an idx file"),
        (b"<html>not found</html>", "not an idx file"),
        (b"\x00\x00\x08", "not an idx file"),
        (idx_bytes((4,), b"abcd", kind=0x0D), "float32"),
        (idx_bytes((4,), b"abcd", kind=0x77), "unknown"),
        (struct.pack(">BBBB", 0, 0, 8, 0), "0 dimensions"),
        (idx_bytes((1, 1, 1, 1, 1), b"a"), "5 dimensions"),
        (struct.pack(">BBBBI", 0, 0, 8, 3, 10), "ends within its header"),
        (idx_bytes((0, 28, 28), b""), "is empty"),
        (idx_bytes((2, 2), b"abc"), "promises|truncated"),
        (idx_bytes((2, 2), b"abcde"), "promises"),
        (idx_bytes((2**32 - 1,) * 4, b"abcd"), "promises"),
    ],
)
def test_refuses(tmp_path: Path, content: bytes, fault: str, packed: bool) -> None:
    path = write(tmp_path, content, packed)
    with pytest.raises(UserError, match=fault) as raised:
        read_idx(path)
    assert str(path) in str(raised.value)


def test_refuses_truncated_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(idx_bytes((5000,), np.random.default_rng(0).bytes(5000)))
    for cut in (3, 15, len(whole) // 2, len(whole) - 4):
        path = tmp_path / "file.gz"
        path.write_bytes(whole[:cut])
        with pytest.raises(UserError, match=r"truncated|damaged"):
            read_idx(path)


def test_refuses_gzip_with_a_flipped_checksum(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(idx_bytes((50,), bytes(50))))
    content[-6] ^= 1  # within the CRC
    path = tmp_path / "file.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="CRC"):
        check_idx(path)


def test_names_decide_about_gzip(tmp_path: Path) -> None:
    plain = tmp_path / "plain.gz"
    plain.write_bytes(idx_bytes((1,), b"a"))
    with pytest.raises(UserError, match="not a gzip file"):
        read_idx(plain)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(idx_bytes((1,), b"a")))
    with pytest.raises(UserError, match=r"name it 'packed\.gz'"):
        read_idx(packed)


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_idx(tmp_path / "absent")


def test_a_gzip_bomb_does_not_fill_the_memory(tmp_path: Path) -> None:
    """300 MB of zeros behind a header of 4 bytes, and behind one that promises 200 GB: read with 80 MB to spare."""
    for name, shape in (("small", (4,)), ("large", (200, 10**9))):
        with gzip.open(tmp_path / f"{name}.gz", "wb", compresslevel=1) as stream:
            stream.write(idx_bytes(shape, b""))
            for _ in range(300):
                stream.write(bytes(10**6))
    script = f"""
import resource
from pathlib import Path
from fedtrip.data.idx import read_idx
from fedtrip.errors import UserError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in ("small", "large"):
    try:
        read_idx(Path({str(tmp_path)!r}) / (name + ".gz"))
    except UserError as error:
        print(error)
    else:
        raise SystemExit("was read")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    small, large, kilobytes = done.stdout.splitlines()
    assert "goes on after the 4 bytes" in small
    assert "promises" in large
    assert "would take" in large or "holds at most" in large
    assert int(kilobytes) < 80_000


def test_images_get_a_channel_and_labels_must_fit(tmp_path: Path) -> None:
    grey, colour, labels = tmp_path / "grey", tmp_path / "colour", tmp_path / "labels"
    grey.write_bytes(idx_bytes((2, 3, 4), bytes(24)))
    colour.write_bytes(idx_bytes((2, 3, 2, 2), bytes(24)))
    labels.write_bytes(idx_bytes((2,), bytes(2)))
    assert read_images(grey).shape == (2, 1, 3, 4)
    assert read_images(colour).shape == (2, 3, 2, 2)
    assert read_labels(labels, 2).shape == (2,)
    with pytest.raises(UserError, match="holds 2 labels for 3 images"):
        read_labels(labels, 3)
    with pytest.raises(UserError, match="1 dimensions; images need 3"):
        read_images(labels)
    with pytest.raises(UserError, match="labels need 1"):
        read_labels(grey, 2)


@settings(max_examples=200, deadline=None)
@given(position=st.integers(0, 60), value=st.integers(0, 255), packed=st.booleans())
def test_any_changed_byte_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, packed: bool
) -> None:
    content = idx_bytes((3, 4, 4), bytes(range(48)))
    content = bytearray(gzip.compress(content) if packed else content)
    content[position] = value
    path = tmp_path_factory.getbasetemp() / ("changed.gz" if packed else "changed")
    path.write_bytes(content)
    try:
        values = read_idx(path)
    except UserError as error:
        refusal = str(error)
    else:
        refusal = str(path)
        assert values.size == 48
    assert str(path) in refusal
