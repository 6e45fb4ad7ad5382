"""`dir(fedtrip)`: what there is can be seen, and seeing it costs nothing."""

import subprocess
import sys

import fedtrip


def test_everything_public_is_shown_and_nothing_private():
    shown = [name for name in dir(fedtrip) if not name.startswith("__")]
    assert set(shown) == set(fedtrip.__all__) - {"__version__"}
    assert "__version__" in dir(fedtrip)


def test_looking_imports_no_torch():
    program = "import fedtrip, sys; assert 'compare' in dir(fedtrip); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
