"""What faults of well-known implementations do to a result.

`python -m tools.audit` measures docs/audit/results.json, in some minutes, and writes docs/audit.md from it; with names
of faults only those are measured again, with `--render` none.

`faults` holds each as a small subclass of our method, `cases` says where it was found and what is wrong, `measuring`
runs both rules on the same seeds, `page` tells it.
"""
