"""The same experiment on Flower: our round loop over its grid, our clients' work on its nodes.

`server_app:app` and `client_app:app` are what `flwr run` runs; `simulation` runs both on this machine. Nothing outside
this package imports Flower.
"""
