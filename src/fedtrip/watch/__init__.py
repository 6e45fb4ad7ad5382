"""Watching: a local page with the curves of the runs below some folders, while they run."""
