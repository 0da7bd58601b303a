"""Workflow files, forms and the update configuration: valid, pinned, and with few rights."""

import re
import subprocess
import sys

import pytest
import yaml

from openbook import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(p for p in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if p.name != "config.yml")
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def steps(workflow):
    for job in workflow["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize(
    "schema, files",
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.dependabot", [GITHUB / "dependabot.yml"]),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ],
    ids=["workflows", "dependabot", "forms", "form-chooser"],
)
def test_valid_against_its_schema(schema, files):
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow_is_pinned_and_has_few_rights(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in text
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for step in steps(workflow):
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), f"{path.name}: {step['uses']} is not pinned by its SHA"
            assert re.search(re.escape(step["uses"]) + r" # v\d+", text), f"{path.name}: the version in a comment"
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
        # An expression inside a script would let a pull request's title or branch name run there.
        assert "${{" not in step.get("run", "")


def test_only_the_deployment_may_write():
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            allowed = {"pages": "write", "id-token": "write"} if (path.stem, name) == ("deploy", "deploy") else {}
            assert job.get("permissions", {}) == allowed, f"{path.name}: {name}"


def test_the_three_forms_exist():
    assert [p.stem for p in FORMS] == ["broken-recipe", "missing-topic", "wrong-figure"]
