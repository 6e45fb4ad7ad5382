"""`python -m tools.audit [NAME ...] [--render]`."""

from __future__ import annotations

import argparse
import sys
import time

from tools.audit.cases import CASES
from tools.audit.measuring import load, measure, store
from tools.audit.page import PAGE, page

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description="What faults do to a result.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of: {', '.join(CASES)}")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page alone")
    given = parser.parse_args()
    if unknown := set(given.names) - set(CASES):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; accepted: {', '.join(CASES)}")
    known = load()
    for name in [] if given.render else given.names or CASES:
        began = time.monotonic()
        known[name] = measure(CASES[name])
        store(known)  # after each, so that what was measured is not lost
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    PAGE.write_text(page(known), encoding="utf-8")
