"""The report: one page that holds everything, to be looked at, sent and printed."""

from __future__ import annotations

from fedtrip.report.folders import Collected, read_folders
from fedtrip.report.page import write_report

__all__ = ["Collected", "read_folders", "write_report"]
