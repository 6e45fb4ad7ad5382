import sys
from pathlib import Path

if __name__ == "__main__":
    # `python -m` puts the working folder first, where a file may be called like a library; code of one's own is found
    # there when it is named
    if not sys.flags.safe_path and Path(sys.path[0]) != Path(__file__).parents[1]:
        del sys.path[0]
    from fedtrip.cli import main

    main()
