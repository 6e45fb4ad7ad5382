// A stand-in until the vector arithmetic is there.
