"""Kubernetes manifests against the schemas of kubernetes-validate, and what the API server refuses besides.

Source of the rules: "Jobs", "Volumes", "Deployments" on kubernetes.io/docs, read for version 1.37.
"""

import difflib
import functools
import importlib.resources
import json
import re
from collections.abc import Iterator, Sequence

import yaml

from openbook.snippets import tools
from openbook.snippets.dialects.base import Problem

GROUP = re.compile(r"(?:([a-z]+)(?:\.[a-z.]+\.k8s\.io|\.k8s\.io)?/)?v\d\w*")  # apps/v1, storage.k8s.io/v1, v1
CLIENT_ONLY = ("Config",)  # kubectl's own file
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
Path = Sequence[str | int]


@functools.cache
def folder():
    """The newest schemas, or None where the package is missing."""
    try:
        schemas = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    except ModuleNotFoundError:
        tools.missed.add("kubernetes-validate")
        return None
    versions = [one for one in schemas.iterdir() if one.name.endswith("-local-strict")]
    return max(versions, key=lambda one: [int(number) for number in re.findall(r"\d+", one.name)])


@functools.cache
def kinds() -> dict[tuple[str, str], str]:
    """(apiVersion as the file names have it, kind in lower case) → file name."""
    found = {}
    for file in folder().iterdir():
        kind, _, version = file.name.removesuffix(".json").partition("-")
        found[version, kind] = file.name
    return found


def read(name: str) -> dict:
    return json.loads((folder() / name).read_text(encoding="utf-8"))


@functools.cache
def definitions():
    import referencing

    return referencing.Resource.from_contents(read("_definitions.json")) @ referencing.Registry()


@functools.cache
def validator(name: str):
    import jsonschema
    import referencing

    schema = read(name)
    registry = referencing.Resource.from_contents(schema) @ definitions()
    return jsonschema.validators.Draft202012Validator(schema, registry=registry)


def check(node: yaml.Node, data: object, whole: bool = True) -> Iterator[Problem]:
    """Problems of one document; `node` is the same document with its lines. Where it is not whole, fields may lack."""
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        return
    kind, version = data["kind"], data.get("apiVersion")
    if not isinstance(version, str) or folder() is None:
        return
    if kind == "List" and isinstance(data.get("items"), list):
        for number, item in enumerate(data["items"]):
            yield from check(inside(node, ["items", number]), item, whole)
        return
    number = folder().name.removesuffix("-local-strict")
    name = kinds().get((short(version), kind.lower()))
    right = proper_kind(name) if name else ""
    if not right or version not in read(name)["properties"]["apiVersion"].get("enum", [version]):
        yield unknown(node, kind, version, number)
        return
    if kind != right:
        yield Problem(line(node, ["kind"]), "kubernetes-kind", f"no kind {kind!r}", f"did you mean {right}?")
        return
    sound, schema = True, validator(name)
    for error in sorted(schema.iter_errors(data), key=lambda error: list(map(str, error.absolute_path))):
        sound = False
        if whole or error.validator != "required":
            yield described(node, error)
    if sound and whole:
        yield from refused(node, kind, data)


def proper_kind(name: str) -> str:
    """The kind that a schema file is for; empty for a part of other manifests."""
    return (read(name).get("properties", {}).get("kind", {}).get("enum") or [""])[0]


def short(version: str) -> str:
    """How file names write an apiVersion: rbac.authorization.k8s.io/v1 → rbac-v1."""
    return re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", version)


def unknown(node: yaml.Node, kind: str, version: str, number: str) -> Problem:
    """An error for a group of Kubernetes itself; a custom resource is somebody else's."""
    group = GROUP.fullmatch(version)
    groups = {"", *(name.rpartition("-")[0] for name, _ in kinds())}
    somebody_elses = (short(version), kind.lower()) in kinds()  # apps.example.org/v1 and apps/v1 have one file
    if not group or (group[1] or "") not in groups or kind in CLIENT_ONLY or somebody_elses:
        message = f"{version} {kind} is no resource of Kubernetes itself: only its YAML is checked"
        return Problem(line(node, ["kind"]), "kubernetes-unknown-kind", message, severity="notice")
    elsewhere = sorted(group for group, name in kinds() if name == kind.lower() and group)
    if elsewhere:
        message = f"Kubernetes {number} has no {kind} in {version}"
        hint = "it is in " + ", ".join(group.replace("-", "/") for group in elsewhere)
        return Problem(line(node, ["apiVersion"]), "kubernetes-kind", message, hint)
    like = difflib.get_close_matches(kind.lower(), [name for group, name in kinds() if group == short(version)], 9)
    proper = [name for name in map(proper_kind, (kinds()[short(version), name] for name in like)) if name]
    hint = f"did you mean {proper[0]}?" if proper else ""
    return Problem(line(node, ["kind"]), "kubernetes-kind", f"Kubernetes {number} has no kind {kind!r}", hint)


def described(node: yaml.Node, error) -> Problem:
    """One violation of a schema, on the line of the field."""
    path, hint = list(error.absolute_path), ""
    where = ".".join(str(part) for part in path) or "the manifest"
    message = error.message if len(error.message) < 200 else f"{error.message[:200]} …"
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        extra = next((name for name in error.instance if name not in known), "")
        like = difflib.get_close_matches(str(extra), known, 1)
        message, hint = f"unknown field {extra!r}", f"did you mean {like[0]}?" if like else ""
        return Problem(line(node, [*path, extra]), "kubernetes-field", f"{where}: {message}", hint)
    rule = "kubernetes-missing" if error.validator == "required" else "kubernetes-value"
    return Problem(line(node, path), rule, f"{where}: {message}", hint)


def refused(node: yaml.Node, kind: str, data: dict) -> Iterator[Problem]:
    """What no schema says."""
    pod, path = pod_of(kind, data)
    if pod is None:
        return
    if kind in ("Job", "CronJob") and pod.get("restartPolicy") not in ("Never", "OnFailure"):
        message = f"a {kind} needs restartPolicy Never or OnFailure; the default, Always, is refused"
        yield Problem(line(node, path), "kubernetes-refused", message)
    if kind in WORKLOADS:
        wanted = (data["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = (data["spec"]["template"].get("metadata") or {}).get("labels") or {}
        if any(labels.get(name) != value for name, value in wanted.items()):
            message = "the selector's labels are not those of the template"
            yield Problem(line(node, ["spec", "selector"]), "kubernetes-refused", message)
    volumes = {one["name"] for one in pod.get("volumes") or ()}
    if kind == "StatefulSet":
        volumes |= {one["metadata"]["name"] for one in data["spec"].get("volumeClaimTemplates") or ()}
    for group in ("initContainers", "containers"):
        for n, container in enumerate(pod.get(group) or ()):
            for m, mount in enumerate(container.get("volumeMounts") or ()):
                if mount["name"] not in volumes:
                    where = [*path, group, n, "volumeMounts", m]
                    yield Problem(line(node, where), "kubernetes-refused", f"no volume is called {mount['name']!r}")


def pod_of(kind: str, data: dict) -> tuple[dict | None, list[str]]:
    """The pod's specification in a manifest, and where it is."""
    path = {"Pod": ["spec"], "CronJob": ["spec", "jobTemplate", "spec", "template", "spec"]}.get(kind)
    if path is None:
        path = ["spec", "template", "spec"] if kind in (*WORKLOADS, "Job") else []
    found = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return (found, path) if path and isinstance(found, dict) else (None, [])


def inside(node: yaml.Node, path: Path) -> yaml.Node:
    """The node at a path, or the last one on the way."""
    for part in path:
        if isinstance(node, yaml.MappingNode):
            below = next((value for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            below = node.value[part]
        else:
            below = None
        if below is None:
            return node
        node = below
    return node


def line(node: yaml.Node, path: Path) -> int:
    """The line of the field at a path: where its name stands."""
    parent = inside(node, path[:-1])
    if path and isinstance(parent, yaml.MappingNode):
        for key, _ in parent.value:
            if key.value == path[-1]:
                return key.start_mark.line + 1
    return inside(node, path).start_mark.line + 1
