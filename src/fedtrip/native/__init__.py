"""The compiled library and its loader; fedtrip runs without it too, on torch alone."""
