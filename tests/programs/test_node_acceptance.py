"""docs/compute/node_acceptance.py: this CPU-only machine for real, made-up H100 nodes, results, comparison."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from openbook.data import limits
from openbook.data.load import load

sys.path.insert(0, str(Path(__file__).parent))
import nvidia_smi

COMPUTE = Path(__file__).parents[2] / "docs/compute"
PROGRAM = COMPUTE / "node_acceptance.py"
NO_TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
SCHEMA = json.loads((COMPUTE / "acceptance_report.schema.json").read_text())
MEASURED = {"matmul_bf16": 720, "memory_bandwidth": 2.9, "allreduce_node": 470, "host_copy": 54, "peer_copy": 380}
MEASURED |= {"rdma_write": 392}


def accept(*options: object) -> subprocess.CompletedProcess:
    command = [sys.executable, PROGRAM, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180)


def report_of(*options: object, code: int = 0) -> dict:
    result = accept(*options, "--json")
    assert result.returncode == code, result.stdout + result.stderr
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def results_of(document: dict, result: str) -> list[tuple[str, str]]:
    return [(check["check"], check["subject"]) for check in document["checks"] if check["result"] == result]


def given(**changed: float) -> list[str]:
    return [part for name, value in (MEASURED | changed).items() for part in ("--measured", f"{name}={value}")]


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Make the inventory of an H100 node as its nvidia-smi would report it; returns the file."""

    def make(name: str = "node1", **ill: dict) -> Path:
        folder = tmp_path / f"bin-{name}"
        folder.mkdir()
        (folder / "xml").write_text(nvidia_smi.xml(8, **ill))
        (folder / "links").write_text(nvidia_smi.nvlink())
        answers = f'case "$*" in "-q -x") cat "{folder}/xml";; *) cat "{folder}/links";; esac'
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{answers}\n")
        (folder / "dmesg").write_text("#!/bin/sh\necho booted\n")
        for path in (folder / "nvidia-smi", folder / "dmesg"):
            path.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
            done = subprocess.run(
                [sys.executable, COMPUTE / "node_inventory.py", "--json"], capture_output=True, text=True
            )
        assert done.returncode == 0, done.stderr
        inventory = json.loads(done.stdout)
        inventory["host"]["hostname"] = name
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(inventory))
        return path

    return make


def test_limits_are_current():
    text = limits.render(load())
    assert limits.PATH.read_text() == text, "run: .venv/bin/python -m openbook.data.limits"
    chips = {chip["id"]: chip["limits"] for chip in json.loads(text)["chips"]}
    assert chips["nvidia-h100-sxm"]["matmul_bf16"]["min"] == 676  # 85 % of 795
    assert chips["nvidia-h100-sxm"]["memory_bandwidth"]["min"] == 2.51  # 75 % of 3.35
    assert chips["nvidia-h100-sxm"]["allreduce_node"]["gpus"] == 8
    assert chips["nvidia-b200"]["matmul_bf16"]["why"].startswith("50 % of 2250")  # nobody published a best
    assert set(limits.REPORTED_AS) <= set(chips), "a name of a chip that the data has not"


def test_this_machine_without_load():
    document = report_of("--anonymous")
    assert document["verdict"] == "incomplete"  # no GPU here, or one that was not measured
    assert document["inventory"]["host"]["hostname"] == ""
    text = accept().stdout
    assert text.startswith(f"# Acceptance of {os.uname().nodename}: incomplete")
    assert "| result | check |" in text


def test_a_healthy_node_passes_when_all_is_measured(node):
    path = node()
    document = report_of("--from", path, "--gpus", 8)
    assert document["chip"] == "nvidia-h100-sxm"
    assert document["verdict"] == "incomplete"
    assert set(document["missing"]) == set(MEASURED)
    assert accept("--from", path, "--complete").returncode == 1
    document = report_of("--from", path, "--gpus", 8, "--complete", *given())
    assert document["verdict"] == "pass"
    assert not results_of(document, "fail")


def test_what_is_ill_fails_and_names_the_gpu(node):
    ill = {"gpu0": {"width": 8}, "gpu1": {"dram": 2}, "gpu2": {"pending": "Yes"}, "gpu3": {"hot": "Active"}}
    ill |= {"gpu4": {"vbios": "96.00.30.00.01"}, "gpu5": {"power": "500.00"}, "gpu6": {"gen": 1}}
    document = report_of("--from", node(**ill), "--gpus", 9, *given(), code=1)
    assert document["verdict"] == "fail"
    fails = {("gpu_count", "node"), ("pcie_width", "GPU 0"), ("uncorrectable", "GPU 1"), ("remap_pending", "GPU 2")}
    assert set(results_of(document, "fail")) == fails | {("slowdowns", "GPU 3"), ("same_vbios", "GPUs")}
    assert {("power_limit_w", "GPU 5"), ("pcie_gen", "GPU 6")} <= set(results_of(document, "look"))  # idle: Gen 1


def test_xids_of_hardware_fail_and_others_are_looked_at(node):
    path = node()
    inventory = json.loads(path.read_text())
    inventory["kernel_log"]["xid"] = {"31": 4, "79": 1, "145": 1}
    path.write_text(json.dumps(inventory))
    document = report_of("--from", path, code=1)
    assert results_of(document, "fail") == [("xid", "Xid 79"), ("xid", "Xid 145")]
    assert ("xid", "Xid 31") in results_of(document, "look")


def test_measurements_below_a_limit_fail_and_own_limits_count(node):
    path = node()
    document = report_of("--from", path, *given(matmul_bf16=600), code=1)
    assert results_of(document, "fail") == [("matmul_bf16", "node")]
    assert report_of("--from", path, *given(), "--limit", "matmul_bf16=730", code=1)["verdict"] == "fail"
    assert report_of("--from", path, *given(matmul_bf16=600), "--limit", "matmul_bf16=590")["verdict"] == "pass"


def test_results_of_the_programs_of_the_book(node, tmp_path):
    row = {"dtype": "bfloat16", "m": 8192, "n": 8192, "k": 8192}
    sweep = {"program": "matmul_sweep", "results": [{**row, "median": 590.0}, {**row, "median": 701.0}]}
    hot = {**sweep, "clock_and_power": {"slowdowns": ["software power cap", "hardware thermal slowdown"]}}
    bench = {"world_size": 8, "summary": {"all_reduce": {"peak_busbw_gbs": 471.0}}, "wrong": [], "slow": []}
    wide = {**bench, "world_size": 64, "wrong": ["all_reduce"]}
    files = {"gpu0": sweep, "gpu1": hot, "node": bench, "all": wide, "verify": {"ok": True, "checkpoints": {"a": []}}}
    files["write"] = {"checkpoint": "a", "bytes_per_s": 12.5e9}
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    document = report_of("--from", node(), "--results", *(tmp_path / f"{name}.json" for name in files), code=1)
    values = {(one["name"], one["subject"]): one["value"] for one in document["measurements"]}
    assert values["matmul_bf16", "gpu0"] == 701.0  # the best shape
    assert values["allreduce_node", "node"] == 471.0
    assert values["checkpoint_write", "write"] == 12.5
    assert results_of(document, "fail") == [("matmul_bf16", "gpu1"), ("allreduce_cluster", "all")]  # hot; wrong


def test_a_misspelt_measurement_is_no_pass_and_an_unmeasured_own_limit_is_missing(node):
    document = report_of("--from", node(), *given(), "--measured", "memory_bandwith=9", "--limit", "disk_read=20")
    assert results_of(document, "look") == [("memory_bandwith", "node")]
    assert (document["verdict"], document["missing"]) == ("incomplete", ["disk_read"])


@pytest.mark.parametrize("cut", [{"gpus": None}, {"gpus": [{"index": 0, "name": "H100"}]}, {"kernel_log": {}}])
def test_an_inventory_that_is_cut_short_is_named(node, tmp_path, cut):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(json.loads(node().read_text()) | cut))
    result = accept("--from", path)
    assert result.returncode == 2
    assert "cut.json" in result.stderr and "Traceback" not in result.stderr


def test_compare_does_not_lose_a_report_of_the_same_name(node, tmp_path):
    done = accept("--from", node(), "--out", tmp_path / "a")
    (tmp_path / "b").mkdir()
    report = tmp_path / "a/node1.json"
    assert done.returncode == 0 and report.exists()
    (tmp_path / "b/node1.json").write_text(report.read_text())
    (tmp_path / "b/node2.json").write_text(report.read_text())
    result = accept("--compare", report, *sorted((tmp_path / "b").glob("*.json")))
    assert result.returncode == 2 and "different file names" in result.stderr


def test_compare_finds_the_odd_node(node, tmp_path):
    ill = {"node3": {"gpu4": {"vbios": "96.00.30.00.01"}}}
    for name in ("node1", "node2", "node3", "node4"):
        speed = given(matmul_bf16=680 if name == "node4" else 740)
        done = accept("--from", node(name, **ill.get(name, {})), *speed, "--out", tmp_path / "reports")
        assert done.returncode == (1 if name == "node3" else 0), done.stdout
    assert (tmp_path / "reports/node3.md").read_text().startswith("# Acceptance of node3: fail")
    reports = sorted((tmp_path / "reports").glob("*.json"))
    result = accept("--compare", *reports, "--json")
    assert result.returncode == 1
    rows = {row["what"]: row["odd"] for row in json.loads(result.stdout)["differences"]}
    assert rows == {"gpus.4.vbios": {"node3": "96.00.30.00.01"}, "matmul_bf16": {"node4": "680"}}  # not serial numbers
    assert "| gpus.4.vbios | 96.00.61.00.01 | node3: 96.00.30.00.01 |" in accept("--compare", *reports).stdout
    assert accept("--compare", *reports[:2]).returncode == 0


def test_nothing_is_loaded_without_yes(tmp_path):
    result = accept("--run", "checkpoint", "--checkpoint-dir", tmp_path / "kept")
    assert result.returncode == 2
    assert "add --yes" in result.stderr
    assert not (tmp_path / "kept").exists()


def test_run_checkpoint(tmp_path):
    options = ("--run", "checkpoint", "--checkpoint-dir", tmp_path / "kept", "--checkpoint-size", "64K", "--yes")
    document = report_of(*options)
    values = {one["name"]: one["value"] for one in document["measurements"]}
    assert values["checkpoint_verified"] == 1
    assert values["checkpoint_write"] > 0
    assert list((tmp_path / "kept").glob("step-*/shard-00007.bin"))


def test_run_matmul_here():
    pytest.importorskip("torch", reason=NO_TORCH)
    document = report_of("--run", "matmul", "--soak", 0, "--yes")
    assert all(one["value"] > 0 for one in document["measurements"])
    assert {one["from"] for one in document["measurements"]} == {"matmul_sweep"}


def test_each_gpu_gets_a_process_of_its_own():
    spec = importlib.util.spec_from_file_location("node_acceptance", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert program.visible({"index": 3, "uuid": "GPU-1"}) == {"CUDA_VISIBLE_DEVICES": "GPU-1"}
    assert program.visible({"index": 3, "bad_pages": 0}) == {"HIP_VISIBLE_DEVICES": "3"}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--run", "everything", "--yes"], "--run knows matmul, collective, checkpoint"),
        (["--run", "matmul", "--from", "x.json", "--yes"], "not with --from"),
        (["--run", "checkpoint", "--yes"], "--checkpoint-dir"),
        (["--from", "nowhere.json"], "No such file"),
        (["--from", PROGRAM], "is not JSON"),
        (["--from", COMPUTE / "acceptance_limits.json"], "neither an inventory"),
        (["--chip", "h100"], "known: nvidia-a100-sxm-40gb"),
        (["--measured", "speed"], "is not NAME=NUMBER"),
        (["--results", COMPUTE / "acceptance_limits.json"], "not a result of"),
        (["--compare", COMPUTE / "acceptance_limits.json"], "at least two reports"),
        (["--limits", "nowhere.json"], "No such file"),
        (["--from", COMPUTE / "acceptance_sample.json", "--out", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_misuse_says_what_to_mend(options, message):
    result = accept(*options)
    assert result.returncode == 2, result.stdout
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_cut_result_is_named(tmp_path):
    (tmp_path / "cut.json").write_text('{"program": "matmul_sweep"}')
    result = accept("--results", tmp_path / "cut.json")
    assert result.returncode == 2
    assert "cut: not a whole result" in result.stderr


WHOLE = json.loads((COMPUTE / "acceptance_sample.json").read_text())


@pytest.mark.parametrize(
    "change",
    [
        {"kernel_log": {**WHOLE.get("inventory", WHOLE)["kernel_log"], "xid": {"abc": 3}}},
        {"host": {}},
        {"gpus": [{"x": 1}]},
    ],
)
def test_an_inventory_of_another_form_is_named(tmp_path, change):
    (tmp_path / "odd.json").write_text(json.dumps({**WHOLE.get("inventory", WHOLE), **change}))
    done = accept("--from", tmp_path / "odd.json")
    assert done.returncode == 2 and "odd.json, or " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--from", "--results", "--compare"])
def test_json_without_end_is_named(tmp_path, option):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    done = accept(option, tmp_path / "deep.json")
    assert done.returncode == 2 and "deep.json is not JSON" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "result",
    [
        {"world_size": 8, "summary": {"all_reduce": {"peak_busbw_gbs": "x"}}, "wrong": []},
        {"world_size": 8, "summary": {"all_reduce": {"peak_busbw_gbs": None}}, "wrong": []},
        {"bytes_per_s": float("nan")},
        {"bytes_per_s": -1},
    ],
)
def test_a_result_that_is_no_number_is_named(node, tmp_path, result):
    (tmp_path / "odd.json").write_text(json.dumps(result))
    done = accept("--from", COMPUTE / "acceptance_sample.json", "--results", tmp_path / "odd.json")
    assert done.returncode == 2 and "odd: not a whole result" in done.stderr and "Traceback" not in done.stderr


def test_a_folder_without_checkpoints_is_no_pass(tmp_path):
    (tmp_path / "none.json").write_text('{"checkpoints": {}}')
    done = accept("--from", COMPUTE / "acceptance_sample.json", "--results", tmp_path / "none.json")
    assert "| fail | checkpoint_verified, checkpoints | none | 0 |  | there is no checkpoint |" in done.stdout


@pytest.mark.parametrize(
    "change",
    [{"inventory": [1]}, {"inventory": {"nics": [{"x": 1}]}}, {"measurements": 3}]
    + [{"measurements": [one]} for one in ({"name": "a"}, {"name": "a", "value": "x"})],
)
def test_a_report_of_another_form_is_named(tmp_path, change):
    whole = {"inventory": WHOLE.get("inventory", WHOLE)}
    (tmp_path / "good.json").write_text(json.dumps(whole))
    (tmp_path / "odd.json").write_text(json.dumps({**whole, **change}))
    done = accept("--compare", tmp_path / "good.json", tmp_path / "odd.json")
    assert done.returncode == 2 and "odd.json, or " in done.stderr and "Traceback" not in done.stderr


def test_the_report_is_printed_where_out_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    done = accept("--from", COMPUTE / "acceptance_sample.json", "--out", tmp_path / "file")
    assert done.returncode == 2 and "File exists" in done.stderr and "# Acceptance of" in done.stdout
