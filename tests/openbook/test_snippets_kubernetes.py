"""Manifests: fields, values, kinds and what the API server refuses, each on the line of the field."""

import importlib.util

import pytest

from openbook.snippets import tools
from openbook.snippets.dialects import BY_NAME, kubernetes
from openbook.snippets.dialects.base import Snippet

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None,
    reason="needs kubernetes-validate: pip install kubernetes-validate",
)
JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: registry.example.org/train:1
          resources: {limits: {nvidia.com/gpu: 8}}
          volumeMounts:
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - name: shm
          emptyDir: {medium: Memory}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector:
    matchLabels: {app: a}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers: [{name: a, image: b}]
"""


def check(source):
    return [(one.line, one.rule, one.severity) for _, one in BY_NAME["yaml"].check([Snippet(source)])]


@pytest.mark.parametrize(
    "source",
    [
        JOB,
        f"{JOB}---\n{DEPLOYMENT}",
        "spec:\n  containers: nothing of a manifest\n",
        "apiVersion: v2\nname: a Helm chart\n",
        "kind: 3\napiVersion: 4\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  # ...\n  nodeSelector: {gpu: h100}\n",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\nrules: []\n",
        "apiVersion: v1\nkind: List\nitems: []\n",
    ],
)
def test_sound(source):
    assert check(source) == []


@pytest.mark.parametrize(
    ("source", "line", "rule"),
    [
        (JOB.replace("restartPolicy", "restartPolcy"), 8, "kubernetes-field"),
        (JOB.replace("completions: 2", "completions: two"), 5, "kubernetes-value"),
        (JOB.replace("medium: Memory", "medium: {a: b}"), 17, "kubernetes-value"),
        (JOB.replace("        - name: train\n  ", "        - #\n  "), 11, "kubernetes-missing"),
        (JOB.replace("batch/v1", "batch/v1beta1"), 1, "kubernetes-kind"),
        (JOB.replace("kind: Job", "kind: Jbo"), 2, "kubernetes-kind"),
        (JOB.replace("kind: Job", "kind: job"), 2, "kubernetes-kind"),
        (JOB.replace("      restartPolicy: Never\n", ""), 7, "kubernetes-refused"),
        (JOB.replace("- name: shm", "- name: other"), 14, "kubernetes-refused"),
        (DEPLOYMENT.replace("labels: {app: a}", "labels: {app: b}"), 5, "kubernetes-refused"),
        (f"{DEPLOYMENT}---\n{JOB}".replace("completions", "complexions"), 16, "kubernetes-field"),
        ("apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n    spec: 3\n", 6, "kubernetes-value"),
    ],
)
def test_mistakes(source, line, rule):
    assert check(source) == [(line, rule, "error")]


@pytest.mark.parametrize(
    "head",
    [
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob",
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet",
        "apiVersion: apps.openshift.io/v1\nkind: Deployment",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization",
        "apiVersion: v1\nkind: Config",
    ],
)
def test_what_is_not_kubernetes_itself_is_only_noticed(head):
    assert check(f"{head}\nanything: goes\n") == [(2, "kubernetes-unknown-kind", "notice")]


def test_the_hint_names_what_was_meant():
    ((_, problem),) = BY_NAME["yaml"].check([Snippet(JOB.replace("restartPolicy", "restartPolcy"))])
    assert "restartPolicy" in problem.hint
    ((_, problem),) = BY_NAME["yaml"].check([Snippet(JOB.replace("batch/v1", "batch/v1beta1"))])
    assert problem.hint == "it is in batch/v1"
    ((_, problem),) = BY_NAME["yaml"].check([Snippet("apiVersion: v1\nkind: Pdo\n")])
    assert problem.hint == "did you mean Pod?"


def test_without_the_schemas_yaml_is_still_checked(monkeypatch):
    def nowhere(name):
        raise ModuleNotFoundError(name)

    kubernetes.folder.cache_clear()
    monkeypatch.setattr(kubernetes.importlib.resources, "files", nowhere)
    monkeypatch.setattr(tools, "missed", set())
    assert check(JOB.replace("restartPolicy", "restartPolcy")) == []
    assert tools.missed == {"kubernetes-validate"}
    kubernetes.folder.cache_clear()
