"""Pages and folders that nobody should write: no crash, no hang, nothing left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from openbook import ROOT
from openbook.snippets import sandbox, tools

SCRIPT = ROOT / "scripts" / "check_snippets.py"
CONFIG = (
    "site_name: Test\nmarkdown_extensions: [admonition, attr_list, pymdownx.highlight, "
    "pymdownx.snippets: {check_paths: true}, pymdownx.superfences]\n"
)
PAGES = {
    "nul.md": (b"a\0b\n\n```bash\nls\n```\n", 0, ""),
    "windows.md": (b"# a\r\n\r\n```python\r\nx = (\r\n```\r\n", 1, "windows.md:4: error [python-syntax]"),
    "binary.md": (bytes(range(256)) * 40, 2, "not UTF-8"),
    "empty.md": (b"", 0, ""),
    "no-include.md": (b'a\n\n```python\n--8<-- "absent.py"\n```\n', 1, "no-include.md:4: error [render-error]"),
    "circular.md": (b'--8<-- "docs/circular.md"\n\n```bash\nls\n```\n', 0, ""),
    "deep.md": ("".join("    " * n + "!!! note\n\n" for n in range(40)).encode(), 0, ""),
    "unclosed.md": (b"```python notest\n" * 200, 1, "unclosed.md:200: error [broken-fence]"),
    "brackets.md": (
        b"".join(b"```%s\n%s\n```\n\n" % (name, b"[" * 5000) for name in (b"json", b"yaml", b"toml", b"c", b"python")),
        1,
        "nested too deeply",
    ),
    "patterns.md": (b"```bash\n" + b";dd " * 30000 + b"\n```\n", 1, "[shell-syntax]"),
    "long-line.md": (b"```bash\n" + b"a" * 300_000 + b"\n```\n", 0, ""),
    "many.md": (b"```json\n1\n```\n\n" * 1000, 0, "1000"),
}


@pytest.fixture
def site(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(CONFIG)
    return tmp_path


def call(site, *arguments, **options):
    command = [sys.executable, str(SCRIPT), "--config", "mkdocs.yml", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=site, timeout=60, **options)


@pytest.mark.parametrize("name", PAGES)
def test_pages(site, name):
    content, code, said = PAGES[name]
    (site / "docs" / name).write_bytes(content)
    done = call(site, f"docs/{name}")
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_folders_with_links_and_pipes(site):
    docs = site / "docs"
    (docs / "page.md").write_text("```bash\nls\n```\n")
    (docs / "loop.md").symlink_to("loop.md")
    (docs / "gone.md").symlink_to("nowhere.md")
    (docs / "ring").symlink_to(".")
    (docs / "folder.md").mkdir()
    os.mkfifo(docs / "pipe.md")
    done = call(site)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-2:] == ["1", "1"]
    assert "neither a file nor a folder" in call(site, "docs/pipe.md").stderr
    twice = call(site, "docs/page.md", "docs/page.md", "docs/../docs/page.md", "--list")
    assert twice.stdout.count("page.md:1-3") == 1


def test_a_message_never_fills_the_screen(site):
    (site / "docs" / "a.md").write_text(f"```dockerfile\nFROM {'a ' * 5000}\n```\n")
    assert len(call(site).stdout) < 1000


def test_a_tool_that_hangs_is_told(monkeypatch):
    monkeypatch.setattr(tools, "missed", set())
    done = tools.call(["sleep", "60"], limit=0.1)
    assert (done.returncode, done.stdout) == (124, "")
    assert tools.missed == {"sleep"}


def of(mark):
    """Processes of this machine whose command line holds the mark."""
    listed = subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True)
    return listed.stdout.split()


@pytest.mark.skipif(bool(sandbox.unusable()), reason=f"needs bubblewrap: {sandbox.unusable()}")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(site, tmp_path, sent):
    mark = f"sleep 77{os.getpid()}.{int(sent)}"
    fences = "".join(f"```bash {{check=run timeout=50}}\n{mark}{n}\n```\n\n" for n in range(9))
    (site / "docs" / "a.md").write_text(fences)
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--config", "mkdocs.yml", "--run"],
        cwd=site,
        env={**os.environ, "TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 30
    while not of(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert of(mark)
    process.send_signal(sent)
    _, told = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "interrupted" in told
    assert "Traceback" not in told
    deadline = time.monotonic() + 3
    while of(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert of(mark) == []
    assert list(folder.iterdir()) == []
