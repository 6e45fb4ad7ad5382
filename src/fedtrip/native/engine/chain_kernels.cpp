// A stand-in until the kernels are there.
