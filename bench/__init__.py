"""Speed against a plain PyTorch loop, as ratios measured in one run: `make bench`."""
