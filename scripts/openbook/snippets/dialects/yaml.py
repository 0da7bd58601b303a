"""YAML: every document loads safely, no key stands twice, aliases stay small, manifests fit Kubernetes."""

import re
from collections.abc import Iterator

import yaml

from openbook.snippets.dialects import kubernetes
from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each

ELLIPSIS = re.compile(r"^\s*#\s*(?:\.\.\.|…)", re.M)  # "# ..." says that something is left out
LARGEST = 10_000  # nodes, once every alias is written out


class Loader(yaml.SafeLoader):
    """Also takes application tags such as `!ENV`, and Python's, which mean nothing here."""


for tag in ("!", "tag:yaml.org,2002:python/"):
    Loader.add_multi_constructor(tag, lambda loader, suffix, node: None)


class TooLarge(Exception):
    """Aliases multiply."""


def walk(node: yaml.Node) -> Iterator[yaml.Node]:
    """Every node, as often as aliases repeat it."""
    yield node
    if isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from walk(child)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from walk(key)
            yield from walk(value)


def duplicates(node: yaml.Node) -> Iterator[Problem]:
    if not isinstance(node, yaml.MappingNode):
        return
    first: dict[tuple[str, str], yaml.Node] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            before = first.setdefault((key.tag, key.value), key)
            if before is not key:
                hint = f"first on line {before.start_mark.line + 1} of the snippet"
                yield Problem(key.start_mark.line + 1, "yaml-duplicate-key", f"key {key.value!r} stands twice", hint)


def describe(problem: Exception) -> str:
    return "nested too deeply, or an alias contains itself" if isinstance(problem, RecursionError) else str(problem)


def check(snippet: Snippet) -> Iterator[Problem]:
    try:
        documents = list(yaml.compose_all(snippet.source, Loader))
        for document in documents:
            nodes: dict[int, yaml.Node] = {}
            for count, node in enumerate(walk(document) if document else (), 1):
                if count > LARGEST:
                    raise TooLarge(f"more than {LARGEST:,} nodes once its aliases are written out")
                nodes[id(node)] = node
            for node in nodes.values():
                yield from duplicates(node)
        values = list(yaml.load_all(snippet.source, Loader))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        yield Problem(mark.line + 1 if mark else 0, "yaml-syntax", str(problem.problem or problem.context))
    except (yaml.YAMLError, ValueError, RecursionError, TooLarge) as problem:
        yield Problem(0, "yaml-syntax", describe(problem))
    else:
        whole = not ELLIPSIS.search(snippet.source)
        for document, value in zip(documents, values, strict=True):
            yield from kubernetes.check(document, value, whole)


YAML = Dialect("yaml", each(check), aliases=("yml",))
