"""Codecs: how an upload becomes bytes, and back."""
