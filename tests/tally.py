"""Counts what tests tried and how it ended, for docs/reliability.md: a line in the file that FEDTRIP_TALLY names."""

import json
import os


def tally(kind, outcome):
    """Note one attempt; nothing unless somebody counts."""
    if place := os.environ.get("FEDTRIP_TALLY"):
        with open(place, "a") as file:
            file.write(json.dumps([kind, outcome]) + "\n")


def attempt(kind, function):
    """What the function gives, or None if it refuses with one clear line; any other exception is a fault of ours."""
    from fedtrip.errors import UserError

    try:
        result = function()
    except UserError as problem:
        clear = 0 < len(str(problem)) < 2000
        tally(kind, "refused" if clear else "failed")
        if not clear:
            raise
        return None
    except BaseException:
        tally(kind, "failed")
        raise
    tally(kind, "accepted")
    return result
