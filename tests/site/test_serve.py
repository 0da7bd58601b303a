"""scripts/serve: what a writer sees."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from openbook import ROOT


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, text: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                if text in answer.read().decode():
                    return
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail(f"{address} never showed {text!r}")


def test_an_edit_shows_up_without_a_restart(tmp_path):
    for name in ("docs", "scripts", "mkdocs.yml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "scripts"), "SITE_URL": f"http://127.0.0.1:{port}/"}
    command = [sys.executable, "-m", "mkdocs", "serve", "--dev-addr", f"127.0.0.1:{port}"]
    server = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}/contributing/"
        wait_for(address, "Report a mistake")
        page = tmp_path / "docs" / "contributing" / "index.md"
        page.write_text(page.read_text().replace("## Report a mistake", "## Tell us of a mistake"))
        wait_for(address, "Tell us of a mistake")
    finally:
        server.terminate()
        server.wait(10)


def test_help_says_what_it_does():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "serve", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--port" in done.stdout and "address to listen on" in done.stdout
