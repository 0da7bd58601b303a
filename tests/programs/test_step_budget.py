"""step_budget.py and loss_peak.py against published figures and a real layer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).parents[2] / "docs" / "training"
TORCH = "needs PyTorch: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"

# MPT-7B on 8 H100 with FSDP, as in MosaicML's benchmark table (llm-foundry, scripts/train/benchmarking)
MPT = "--model gpt2 --layers 32 --hidden 4096 --heads 32 --kv-heads 32 --head-dim 128 --ffn 16384 --vocab 50368"
MPT += " --gpus 8 --zero 3 --recipe fp32-adam --loss fused --attention-flops full"


def program(name: str, arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, TRAINING / name, *arguments.split()], capture_output=True, text=True, timeout=120
    )


def budget(arguments: str, code: int = 0) -> dict:
    done = program("step_budget.py", f"--json {arguments}")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_zero_paper_table():
    """ZeRO paper, figure 1: 7.5B parameters on 64 devices."""
    states = budget("--params 7.5B --gpus 64")["states_bytes_by_zero_stage"]
    assert {stage: round(value / 1e9, 1) for stage, value in states.items()} == {
        "0": 120.0,
        "1": 31.4,
        "2": 16.6,
        "3": 1.9,
    }


def test_megatron_bytes_per_parameter():
    """Megatron-LM counts 18 bytes, and 6 + 12/d with its distributed optimizer."""
    states = budget("--params 1B --gpus 8 --recipe bf16-adam-fp32grad")["states_bytes_by_zero_stage"]
    assert states["0"] == 18e9
    assert states["1"] == pytest.approx((6 + 12 / 8) * 1e9)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("bloom-176b", 176_247_271_424),
        ("llama2-7b", 6_738_415_616),
        ("llama2-13b", 13_015_864_320),
        ("llama2-70b", 68_976_648_192),
        ("llama3.2-1b", 1_235_814_400),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
    ],
)
def test_parameter_counts_are_exact(model, parameters):
    assert budget(f"--model {model} --memory-gb 1e6")["parameters"] == parameters


@pytest.mark.parametrize(
    ("arguments", "published", "error"),  # errors as on the page, and one more run
    [
        ("--model llama2-7b --tokens 2T --device a100", 184_320, 0.04),
        ("--model llama2-13b --tokens 2T --device a100", 368_640, -0.01),
        ("--model llama2-70b --tokens 2T --device a100", 1_720_320, 0.11),
        ("--model bloom-176b --tokens 366B --device a100 --seq 2048", 1_082_990, -0.20),
        ("--model llama3-405b --tokens 15.6T --seq 8192", 30.84e6, -0.10),
        ("--model llama3-70b --tokens 15T --seq 8192", 6.4e6, -0.26),
        ("--model llama3-8b --tokens 15T --seq 8192", 1.3e6, -0.58),
    ],
)
def test_gpu_hours_within_the_stated_error(arguments, published, error):
    hours = budget(f"{arguments} --mfu 0.4 --memory-gb 1e6")["gpu_hours"]
    assert hours / published - 1 == pytest.approx(error, abs=0.006)


def test_bloom_hours_from_its_reported_throughput():
    """150 of 312 TFLOP/s, counted with recomputation: within 12 % of the hours paid."""
    result = budget("--model bloom-176b --seq 2048 --device a100 --hfu 0.4808 --recompute full --tokens 366B", code=1)
    assert -0.12 < result["gpu_hours"] / 1_082_990 - 1 < -0.10
    assert result["flops_per_token"]["hardware"] == pytest.approx(8 * 176.2e9, rel=0.02)  # the 8N rule
    assert result["mfu"] == pytest.approx(0.4808 * 3 / 4, rel=0.01)


def test_mosaic_flops_per_second():
    """8,611 tokens/s per GPU at sequence 4,096 is 3.999793e14 model FLOP/s in MosaicML's table."""
    flops = budget(f"{MPT} --seq 4096")["flops_per_token"]["model"]
    assert flops * 8611 == pytest.approx(3.999793e14, rel=0.005)


def test_mosaic_micro_batch_is_the_largest_that_fits():
    assert budget(f"{MPT} --seq 2048 --micro-batch 6")["fits"]
    assert not budget(f"{MPT} --seq 2048 --micro-batch 7", code=1)["fits"]


def test_gpt3_attention_share_of_activations():
    """Korthikanti et al.: selective recomputation saves 70 % of GPT-3's activations."""
    gpt3 = "--model gpt2 --layers 96 --hidden 12288 --heads 96 --kv-heads 96 --head-dim 128 --ffn 49152"
    gpt3 += " --seq 2048 --attention eager --memory-gb 1e6"
    whole = budget(gpt3)["memory_bytes"]["activations"]
    selective = budget(f"{gpt3} --recompute selective")["memory_bytes"]["activations"]
    assert whole == 96 * 2048 * 12288 * (34 + 80)
    assert 1 - selective / whole == pytest.approx(0.70, abs=0.005)


def test_parallelism_divides_what_it_should():
    one = budget("--model llama3-8b", code=1)["memory_bytes"]
    split = budget("--model llama3-8b --gpus 8 --tp 8")["memory_bytes"]
    for part in ("weights", "gradients", "optimizer", "activations", "logits and loss"):
        assert split[part] == pytest.approx(one[part] / 8)
    stages = budget("--model llama3-8b --gpus 4 --pp 4 --accumulation 8")
    assert stages["memory_bytes"]["activations"] == pytest.approx(one["activations"])  # 4 micro-batches in flight
    assert stages["pipeline_bubble"] == pytest.approx(3 / 11)
    sharded = budget("--model llama3-8b --gpus 8 --zero 3")["memory_bytes"]
    assert sharded["activations"] == one["activations"]
    assert sharded["gathered by ZeRO-3"] > 0


def test_full_recompute_costs_a_forward_pass_of_the_layers():
    plain, redone = budget("--gpus 8 --zero 3"), budget("--gpus 8 --zero 3 --recompute full")
    assert redone["memory_bytes"]["activations"] == 32 * 4096 * 2 * 4096
    assert 1.30 < redone["step_seconds"] / plain["step_seconds"] < 1.34
    assert redone["mfu"] < plain["mfu"]


def test_text_says_whether_it_fits():
    small = program("step_budget.py", "--model gpt2 --seq 1024")
    assert (small.returncode, "of 80: fits" in small.stdout) == (0, True)
    large = program("step_budget.py", "")
    assert (large.returncode, "DOES NOT FIT" in large.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model none", "invalid choice"),
        ("--gpus 6 --tp 4", "not a multiple of --tp 4"),
        ("--model llama3-8b --gpus 16 --tp 16", "does not divide 32 heads and 8 key/value heads"),
        ("--gpus 64 --pp 64", "more than 32 layers"),
        ("--model llama2-7b --heads 30", "not a multiple of --kv-heads"),
        ("--layers 2 --hidden 64", "also needs --heads --ffn --vocab"),
        ("--seq 0", "must be above 0"),
        ("--hfu 1.5", "at most 1"),
        ("--tokens many", "invalid number"),
        ("--reserve-gb -1", "not negative"),
        ("--reserve-gb nan", "must be a finite number"),
        ("--gpus 99999999999999999999", "at most 1e+12"),
        ("--mfu 0.4 --hfu 0.4", "not allowed with"),
    ],
)
def test_misuse_ends_with_2_and_a_message(arguments, message):
    done = program("step_budget.py", arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_measure_agrees_with_the_formulas():
    pytest.importorskip("torch", reason=TORCH)
    result = budget("--measure")
    assert result["agree"]
    assert {row["layer"] for row in result["layers"]} == {"llama, flash", "gpt, eager"}
    for row in result["layers"]:
        assert row["parameters"] == row["parameters_formula"]
        assert row["saved_bytes"] == pytest.approx(row["saved_bytes_formula"], rel=0.001)


def test_loss_peak_in_bytes_per_logit():
    pytest.importorskip("torch", reason=TORCH)
    done = program("loss_peak.py", "--json --tokens 512 --vocab 4096 --hidden 32")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["bytes_per_logit"]
    expected = {"upcast": 12, "upcast_bf16_kept": 14, "upcast_both_kept": 18, "no_upcast": 6}
    assert {k: found[k] for k in expected} == pytest.approx(expected, abs=0.3)
    assert found["chunked"] < 2


@pytest.mark.parametrize(
    ("arguments", "message"), [("--tokens 0", "must be from 1"), ("--vocab 1" + "0" * 30, "from 1")]
)
def test_loss_peak_refuses_sizes(arguments, message):
    done = program("loss_peak.py", arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_loss_peak_without_memory_ends_with_2_and_a_message():
    pytest.importorskip("torch", reason=TORCH)
    done = program("loss_peak.py", "--vocab 1000000000 --hidden 1000000")  # 4 PB, more than an address space
    assert done.returncode == 2
    assert "use fewer --tokens" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["step_budget.py --measure", "loss_peak.py"])
def test_missing_torch_is_named(name, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')")
    script, *arguments = name.split()
    done = subprocess.run(
        [sys.executable, TRAINING / script, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        timeout=60,
    )
    assert done.returncode == 2
    assert "pip install torch" in done.stderr
