"""What the catalogue says about a data set: the shape of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class DataFile:
    """One file that is read. It may lie in the folder under its name, or gzip-compressed as `NAME.gz`.

    `size` and `md5` are those of the unpacked content; `gz_md5` is the published checksum of the compressed file.
    """

    name: str
    size: int
    md5: str | None = None
    gz_md5: str | None = None


@dataclass(frozen=True)
class Download:
    """One file as a publisher offers it; the addresses are tried in order and must all give the same bytes."""

    name: str
    size: int
    md5: str
    urls: tuple[str, ...]


@dataclass(frozen=True)
class DataArchive:
    """A download that has to be extracted: member `prefix` + name becomes the file `name` of the folder.

    `members` gives the name and the largest accepted size in bytes; nothing else is ever extracted.
    """

    download: Download
    prefix: str
    members: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class KnownSet:
    """One data set of the catalogue. Without `mean` and `std` they are computed from the training set."""

    name: str
    title: str
    format: Literal["idx", "cifar", "digits"]
    folder: str
    train_files: tuple[DataFile, ...]  # idx: images, labels; cifar: the batches
    test_files: tuple[DataFile, ...]
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    samples_per_client: int  # Table 2 of the FedTrip paper, where it names the set
    target: float | None = None  # the test accuracy that is tried for, if nothing is said
    targets: Mapping[str, float] = field(default_factory=dict)  # of some models another one
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    first_label: int = 0
    label_bytes: int = 1  # cifar: bytes before the pixels of a record, the last of which is the label
    transposed: bool = False  # stored column by column
    downloads: tuple[Download, ...] = ()
    archive: DataArchive | None = None
    system_folders: tuple[str, ...] = ()  # where a distribution's package puts the files themselves

    @property
    def files(self) -> tuple[DataFile, ...]:
        """Every file of the set."""
        return self.train_files + self.test_files

    @property
    def offered(self) -> tuple[Download, ...]:
        """What the publisher offers for download: single files or one archive; empty if nothing is offered."""
        return self.downloads if self.archive is None else (self.archive.download,)
