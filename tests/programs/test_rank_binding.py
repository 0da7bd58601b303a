"""docs/compute/rank_binding.py: plans from recorded topologies, binds and checks real processes of this machine."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMPUTE = Path(__file__).parents[2] / "docs/compute"
PROGRAM = COMPUTE / "rank_binding.py"
SAMPLE = COMPUTE / "rank_binding_sample.json"
SHOW = "import os; print(sorted(os.sched_getaffinity(0)))"


def clean(**more: str) -> dict:
    """This environment without launchers and visible devices."""
    dropped = ("SLURM_", "OMPI_", "LOCAL_RANK", "CUDA_VISIBLE", "HIP_VISIBLE", "ROCR_VISIBLE")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | more


def bind(*options: object, **variables: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-I", "-S", PROGRAM, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean(**variables))


def ranks(*options: object, code: int = 0, **variables: str) -> list[dict]:
    result = bind(*options, "--json", **variables)
    assert result.returncode == code, result.stdout + result.stderr
    return json.loads(result.stdout)["ranks"]


@pytest.fixture
def two_nodes(tmp_path):
    """A topology in which each of two real CPUs of this machine is a NUMA node with a GPU."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs: run on a machine with more")
    file = tmp_path / "two.json"
    numa = [{"node": i, "cpus": str(cpus[i]), "cores": [str(cpus[i])]} for i in range(2)]
    gpus = [{"bus": f"0000:{i}b:00.0", "above": [f"pci0000:{i}a"], "numa": i, "index": i} for i in range(2)]
    file.write_text(json.dumps({"numa": numa, "gpus": gpus, "nics": []}))
    return file, cpus


def test_plan_divides_whole_cores_and_finds_the_card_below_the_same_switch():
    rows = ranks("--from", SAMPLE)
    assert [row["numa"] for row in rows] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert rows[1]["cpus"] == "14-27,126-139"  # both threads of its cores
    assert [(row["nic"], row["nic_distance"]) for row in rows] == [(f"mlx5_{i}", "same switch") for i in range(8)]


def test_shared_plan_gives_the_whole_node():
    assert {row["cpus"] for row in ranks("--from", SAMPLE, "--share", "node")} == {"0-55,112-167", "56-111,168-223"}


def test_cards_that_are_equally_far_are_dealt_out(tmp_path):
    found = json.loads(SAMPLE.read_text())
    for device in found["gpus"] + found["nics"]:
        device["above"] = device["above"][:1] if device in found["gpus"] else ["pci0000:ff"]
    (tmp_path / "flat.json").write_text(json.dumps(found))
    rows = ranks("--from", tmp_path / "flat.json")
    assert {row["nic"] for row in rows[:4]} == {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}
    assert {row["nic_distance"] for row in rows} == {"same NUMA node"}


def test_unknown_numa_node_is_a_finding_and_binds_nothing(tmp_path):
    found = json.loads(SAMPLE.read_text())
    found["gpus"][2]["numa"] = -1
    (tmp_path / "hidden.json").write_text(json.dumps(found))
    row = ranks("--from", tmp_path / "hidden.json", code=1)[2]
    assert row["cpus"] == "0-223" and "unknown" in row["problem"]


def test_reads_a_sysfs_tree(tmp_path):
    def write(path: str, text: str) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text + "\n")

    for node, cpus in enumerate(("0-1", "2-3")):
        write(f"devices/system/node/node{node}/cpulist", cpus)
    for cpu in range(4):
        write(f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}")
    devices = {"0000:12:00.0": ("0x10de", "0x030200"), "0000:13:00.0": ("0x15b3", "0x020700")}
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    for address, (vendor, kind) in devices.items():
        folder = f"devices/pci0000:10/0000:10:01.0/0000:11:00.0/{address}"
        for name, text in (("vendor", vendor), ("class", kind), ("numa_node", "1")):
            write(f"{folder}/{name}", text)
        (tmp_path / "bus/pci/devices" / address).symlink_to(tmp_path / folder)
    (tmp_path / "devices/pci0000:10/0000:10:01.0/0000:11:00.0/0000:13:00.0/infiniband/mlx5_0").mkdir(parents=True)
    (row,) = ranks("--sysfs", tmp_path)
    assert (row["bus"], row["cpus"], row["nic"], row["nic_distance"]) == (
        "0000:12:00.0",
        "2-3",
        "mlx5_0",
        "same switch",
    )
    recorded = tmp_path / "recorded.json"
    recorded.write_text(bind("record", "--sysfs", tmp_path).stdout)
    assert ranks("--from", recorded) == [row]


@pytest.mark.parametrize("variable", ["LOCAL_RANK", "SLURM_LOCALID"])
def test_exec_binds_the_command_and_keeps_its_exit_code(two_nodes, variable):
    file, cpus = two_nodes
    command = ["exec", "--from", file, "--", sys.executable, "-c", f"{SHOW}; raise SystemExit(7)"]
    result = bind(*command, **{variable: "1"})
    assert (result.returncode, result.stdout) == (7, f"[{cpus[1]}]\n")
    assert f"local rank 1 gpu 1 numa 1 cpus {cpus[1]}" in result.stderr


@pytest.mark.parametrize(("memory", "policy"), [("preferred", "prefer"), ("bind", "bind:0"), ("none", "default")])
def test_exec_sets_the_memory_policy_of_the_command(two_nodes, memory, policy):
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("needs a kernel with CONFIG_NUMA: run on one of Debian or Ubuntu")
    command = ["exec", "--memory", memory, "--from", two_nodes[0], "--", "cat", "/proc/self/numa_maps"]
    result = bind(*command, LOCAL_RANK="0")
    if "Operation not permitted" in result.stderr:
        pytest.skip("needs set_mempolicy: docker run --cap-add SYS_NICE")
    assert policy in result.stdout.splitlines()[0], result.stderr


def test_exec_uses_the_one_visible_gpu_whatever_the_rank(two_nodes):
    file, cpus = two_nodes
    command = ["exec", "--quiet", "--from", file, "--", sys.executable, "-c", SHOW]
    result = bind(*command, LOCAL_RANK="1", CUDA_VISIBLE_DEVICES="0")
    assert (result.stdout, result.stderr) == (f"[{cpus[0]}]\n", "")


def test_exec_outside_of_the_allowed_cpus_starts_unbound_and_says_so(two_nodes):
    file, cpus = two_nodes
    command = [sys.executable, PROGRAM, "exec", "--from", file, "--", sys.executable, "-c", SHOW]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env=clean(LOCAL_RANK="1"),
        preexec_fn=lambda: os.sched_setaffinity(0, {cpus[0]}),
    )
    assert result.stdout == f"[{cpus[0]}]\n"
    assert "none of the allowed CPUs is on NUMA node 1" in result.stderr


def test_check_tells_bound_unbound_and_wrong_ranks_apart(two_nodes):
    file, cpus = two_nodes
    wanted = {"0": {cpus[0]}, "1": set(cpus[:2]), "2": {cpus[0]}}
    sleepers = {}
    try:
        for name, own in wanted.items():
            environment = clean(LOCAL_RANK="1" if name == "2" else name)
            sleep = subprocess.Popen(
                ["sleep", "60"], env=environment, preexec_fn=lambda own=own: os.sched_setaffinity(0, own)
            )
            sleepers[name] = sleep
        time.sleep(0.2)
        pids = [sleep.pid for sleep in sleepers.values()]
        rows = {row["pid"]: row for row in ranks("check", "--from", file, *pids, code=1)}
        assert rows[pids[0]]["problem"] == "one CPU, shared with rank 1" and rows[pids[0]]["gpu_numa"] == 0
        assert "not bound" in rows[pids[1]]["problem"]
        assert rows[pids[2]]["problem"] == "wrong NUMA node: GPU on 1"
        (alone,) = ranks("check", "--from", file, pids[0])
        assert (alone["pid"], alone["rank"], alone["problem"]) == (pids[0], 0, None)
    finally:
        for sleep in sleepers.values():
            sleep.kill()
            sleep.wait()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["exec"], "needs a command"),
        (["exec", "--from", SAMPLE, "--", "true"], "LOCAL_RANK"),
        (["--from", "/nowhere.json"], "nowhere.json"),
        (["check", "999999999"], "process 999999999"),
        (["plan", "--", "true"], "takes no command"),
        (["--from", PROGRAM], "not a topology"),
    ],
)
def test_misuse_is_explained(options, message):
    result = bind(*options)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr


def test_visible_device_that_is_not_here_is_misuse(two_nodes):
    result = bind("exec", "--from", two_nodes[0], "--", "true", LOCAL_RANK="0", CUDA_VISIBLE_DEVICES="5")
    assert result.returncode == 2 and "GPU 5" in result.stderr


def test_command_that_is_not_there_is_named(two_nodes):
    result = bind("exec", "--from", two_nodes[0], "--", "no-such-command", LOCAL_RANK="0")
    assert result.returncode == 2 and "no-such-command: No such file" in result.stderr
