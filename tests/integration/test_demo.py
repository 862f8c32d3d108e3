"""The demo's service ends with the demo, however that ends."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
WAIT = """
import sys
from pathlib import Path
from examples.demo import service
with service(Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, None])
def test_no_service_outlives_its_demo(how: signal.Signals | None, tmp_path: Path):
    demo = subprocess.Popen(
        [sys.executable, "-c", WAIT, str(tmp_path / "demo")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert demo.stdout is not None
    assert demo.stdout.readline() == b"ready\n"
    (service,) = psutil.Process(demo.pid).children()
    assert "up" in service.cmdline()
    if how is not None:
        demo.send_signal(how)
    demo.communicate(timeout=60)
    _, alive = psutil.wait_procs([service], timeout=60)
    assert not alive
