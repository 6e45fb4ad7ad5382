"""The catalogue is consistent with itself."""

from __future__ import annotations

import math

import pytest

from fedtrip.data import KNOWN_SETS, known_set


@pytest.mark.parametrize("known", KNOWN_SETS.values(), ids=lambda known: known.name)
def test_sizes_follow_from_samples_and_shape(known: object) -> None:
    entry = known_set(known.name)  # type: ignore[attr-defined]
    assert entry is known
    labels_and_pixels = (entry.train + entry.test) * (entry.label_bytes + math.prod(entry.shape))
    headers = 2 * (16 + 8) if entry.format == "idx" else 0
    if entry.files:
        assert sum(file.size for file in entry.files) == labels_and_pixels + headers
    for download in entry.offered:
        assert len(download.md5) == 32
        assert all(url.endswith("/" + download.name) for url in download.urls)


def test_an_archive_holds_the_files_of_its_sets() -> None:
    for known in KNOWN_SETS.values():
        if known.archive is not None:
            members = {name.removesuffix(".gz") for name, _ in known.archive.members}
            assert {file.name for file in known.files} <= members


def test_emnist_balanced_has_two_names() -> None:
    assert known_set("emnist:balanced") is known_set("emnist")
