"""tmp"""

IN_TABLES = ("fedtrip", "fedavg", "fedprox", "slowmo", "moon", "feddyn")
