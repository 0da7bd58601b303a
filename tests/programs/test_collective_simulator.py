"""collective_simulator.py reproduces the closed forms, keeps to bounds with slow parts, and meets published numbers."""

import importlib.util
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "docs" / "network" / "collective_simulator.py"
SIZE = 2**26


def run(*args):
    return subprocess.run([sys.executable, str(PROGRAM), *args], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("collective_simulator", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("op", "rounds"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_ring_on_equal_links_is_the_closed_form(program, op, rounds):
    for n in 2, 5, 8:
        cluster = program.Cluster(nodes=1, gpus=n, cards=1)
        expected = rounds * (n - 1) * (3.4e-6 + SIZE / n / 370.8e9)
        assert math.isclose(program.seconds(cluster, op, "ring", SIZE), expected, rel_tol=1e-9)


def test_hierarchical_is_the_sum_of_its_three_rings(program):
    cluster = program.Cluster(nodes=4, gpus=8, cards=8)
    inside = 2 * 7 * (3.4e-6 + SIZE / 8 / 370.8e9)
    network = 2 * 3 * (14e-6 + SIZE / 32 / 48e9)  # a rail has the whole GPU port, so the card limits
    assert math.isclose(program.seconds(cluster, "all_reduce", "hierarchical", SIZE), inside + network, rel_tol=1e-9)
    gather = 3 * (14e-6 + SIZE / 32 / 48e9) + 7 * (3.4e-6 + SIZE / 8 / 370.8e9)
    assert math.isclose(program.seconds(cluster, "all_gather", "hierarchical", SIZE), gather, rel_tol=1e-9)


def test_rails_that_share_a_card_take_turns(program):
    alone = program.Cluster(nodes=2, gpus=2, cards=2, network_us=0.001, inside=1e6)
    shared = replace(alone, cards=1)
    ratio = program.seconds(shared, "all_gather", "hierarchical", 2**32) / program.seconds(
        alone, "all_gather", "hierarchical", 2**32
    )
    assert math.isclose(ratio, 2, rel_tol=1e-3)


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 2)], [(1, 0), (2, 0)]])
def test_a_port_carries_one_transfer_at_a_time(program, pairs):
    cluster = program.Cluster(nodes=1, gpus=3, cards=1)
    plan = program.Plan()
    for source, target in pairs:
        plan.add(source, target, SIZE, 0, [])
    assert math.isclose(program.simulate(plan, cluster, 1), 2 * SIZE / 370.8e9 + 3.4e-6, rel_tol=1e-9)


def test_channels_share_the_ports_of_the_gpus(program):
    cluster = program.Cluster(nodes=2, card=1e6, network_us=0.001, inside_us=0.001)
    time = program.seconds(cluster, "all_reduce", "ring", 2**33)
    assert math.isclose(program.bus(cluster, "all_reduce", 2**33, time), 370.8, rel_tol=0.01)


@pytest.mark.parametrize("nodes", [4, 7, 16])
def test_tree_lies_between_its_bounds(program, nodes):
    cluster = program.Cluster(nodes=nodes, gpus=1, cards=1)
    large = program.seconds(cluster, "all_reduce", "tree", 2**33) * 48e9 / 2**33
    assert 1.9 < large < 2.8  # no port carries less than nearly two messages; pipelining costs a little
    small = program.seconds(cluster, "all_reduce", "tree", 8)
    assert 2 * math.floor(math.log2(nodes)) * 14e-6 <= small <= 2 * (math.log2(nodes) + 1) * 14e-6 * 1.01


def test_both_trees_reach_every_node_and_no_node_is_inner_in_both(program):
    for nodes in range(2, 40):
        up = program.parents(nodes)
        assert up[0] == -1 and all(program.depth(up, i) <= math.ceil(math.log2(nodes)) + 1 for i in range(nodes))
        if nodes % 2 == 0:
            inner = {i for i in up if i >= 0}
            assert not {i for i in inner if i} & {nodes - 1 - i for i in inner if i}


def test_a_tree_wins_on_small_messages_and_a_ring_on_large_ones(program):
    cluster = program.Cluster(nodes=8)
    time = {(a, s): program.seconds(cluster, "all_reduce", a, s) for a in ("ring", "tree") for s in (2**13, 2**32)}
    assert time["tree", 2**13] * 3 < time["ring", 2**13]
    assert time["ring", 2**32] < time["tree", 2**32]


@pytest.mark.parametrize("algorithm", ["ring", "tree", "hierarchical"])
def test_a_slow_card_costs_something_and_not_more_than_its_factor(program, algorithm):
    healthy = program.Cluster(nodes=4)
    slow = replace(healthy, slow_cards={(2, 5): 0.25})
    ratio = program.seconds(slow, "all_reduce", algorithm, 2**28) / program.seconds(
        healthy, "all_reduce", algorithm, 2**28
    )
    assert 1.5 < ratio <= 4.0


def test_a_slow_rank_holds_the_whole_ring(program):
    healthy = program.Cluster(nodes=1, gpus=8)
    slow = replace(healthy, slow_ranks={3: 0.5})
    ratio = program.seconds(slow, "all_reduce", "ring", 2**32) / program.seconds(healthy, "all_reduce", "ring", 2**32)
    assert 1.9 < ratio <= 2.0


@pytest.mark.parametrize("algorithm", ["ring", "tree", "hierarchical"])
def test_a_late_rank_delays_by_no_more_than_its_delay(program, algorithm):
    healthy = program.Cluster(nodes=4)
    late = replace(healthy, late={9: 2000.0})
    for size in 2**20, 2**30:
        fine, delayed = (program.seconds(c, "all_reduce", algorithm, size) for c in (healthy, late))
        assert max(fine, 2e-3) < delayed <= fine + 2e-3 + 1e-9


def test_published_measurements_are_met_within_the_stated_error():
    done = run("--published", "--json")
    assert done.returncode == 0, done.stdout
    rows = json.loads(done.stdout)
    assert len(rows) >= 6 and all(abs(r["error"]) <= r["allowed"] and r["source"].startswith("https://") for r in rows)
    assert abs(next(r for r in rows if r["name"] == "V100, EFA, 64 ranks")["error"]) < 0.01


def test_a_missed_measurement_is_a_finding(program, monkeypatch, capsys):
    wrong = [(*program.PUBLISHED[0][:6], 100.0, *program.PUBLISHED[0][7:])]
    monkeypatch.setattr(program, "PUBLISHED", wrong)
    monkeypatch.setattr(sys, "argv", ["collective_simulator.py", "--published"])
    assert program.main() == 1
    assert "+63.4%" in capsys.readouterr().out


def test_json_names_every_algorithm_and_bus_bandwidth_follows_the_time():
    found = json.loads(run("--nodes", "2", "--size", "16M", "--slow-card", "1.0:0.5", "--json").stdout)
    assert [r["algorithm"] for r in found["results"]] == ["ring", "tree", "hierarchical"]
    for r in found["results"]:
        assert math.isclose(r["busbw"], 2 * 15 / 16 * found["bytes"] / r["us"] / 1e3, rel_tol=0.01)
        assert r["slowdown"] > 1


@pytest.mark.parametrize(
    "args",
    [
        ["--nodes", "1", "--gpus", "1"],
        ["--cards", "9"],
        ["--slow-rank", "99:0.5"],
        ["--slow-rank", "1:2"],
        ["--slow-card", "0:0.5"],
        ["--slow-card", "0.8:0.5"],
        ["--late", "x"],
        ["--size", "1T"],
        ["--op", "all_gather", "--algorithm", "tree"],
        ["--nodes", "999"],
    ],
)
def test_misuse_is_refused_with_a_message(args):
    done = run(*args)
    assert done.returncode == 2 and "error:" in done.stderr and "Traceback" not in done.stderr
