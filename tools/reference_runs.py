"""Write the SHA-256 of the reference runs, from which a machine can see that it computes the same bits.

`python -m tools.reference_runs`. Only after a change that is meant to change bits, and says so.
"""

from __future__ import annotations

import json
from pathlib import Path

from fedtrip.api import reference_runs


def main() -> None:
    """Run all of them here."""
    known = {name: one.sha256() for name, one in reference_runs.reference_runs().items()}
    place = Path(reference_runs.__file__).with_name(reference_runs.FILE)
    place.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
