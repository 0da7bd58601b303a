"""Dockerfiles: known instructions in a sensible order, well-formed arguments.

Source: the Dockerfile reference of docs.docker.com, syntax 1.
"""

import difflib
import json
import re
from collections.abc import Iterator

from openbook.snippets.dialects.base import Dialect, Problem, Snippet, each, words

INSTRUCTIONS = words(
    "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER "
    "VOLUME WORKDIR"
)
FLAGS = {
    "ADD": {"keep-git-dir", "checksum", "chown", "chmod", "link", "exclude", "unpack"},
    "COPY": {"from", "chown", "chmod", "link", "parents", "exclude"},
    "FROM": {"platform"},
    "HEALTHCHECK": {"interval", "timeout", "start-period", "start-interval", "retries"},
    "RUN": {"mount", "network", "security", "device"},
}
HEREDOC = re.compile(r"<<-?(['\"]?)(\w+)\1")
FROM = re.compile(r"\S+(\s+as\s+[a-z0-9][\w.-]*)?", re.I)


def instructions(source: str) -> Iterator[tuple[int, str, str]]:
    """First line, word and arguments of each instruction; comments and here-documents are left out."""
    escape = "`" if re.match(r"\s*#\s*escape\s*=\s*`", source, re.I) else "\\"
    lines = iter(enumerate(source.split("\n"), 1))
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        text = line.strip()
        while text.endswith(escape):
            text = text[:-1].rstrip()
            for _, more in lines:
                if more.strip() and not more.lstrip().startswith("#"):
                    text += " " + more.strip()
                    break
            else:
                break
        word, _, arguments = text.partition(" ")
        ends = [match[2] for match in HEREDOC.finditer(arguments)] if word.upper() in ("RUN", "COPY", "ADD") else []
        while ends:
            for _, body in lines:
                if body.strip() == ends[0]:
                    break
            ends.pop(0)
        yield number, word, arguments.strip()


def check(snippet: Snippet) -> Iterator[Problem]:
    """A fragment may leave out FROM; a file, and whatever has one, has it first."""
    found = list(instructions(snippet.source))
    begun = not any(word.upper() == "FROM" for _, word, _ in found)
    for number, word, arguments in found:
        name = word.upper()
        if name not in INSTRUCTIONS:
            like = difflib.get_close_matches(name, INSTRUCTIONS, 1)
            hint = f"did you mean {like[0]}?" if like else "is a backslash missing on the line before?"
            yield Problem(number, "docker-instruction", f"unknown instruction {word!r}", hint)
            continue
        if name == "FROM":
            begun = True
        elif not begun and name != "ARG":
            yield Problem(number, "docker-order", f"{name} before the first FROM")
        yield from (Problem(number, "docker-arguments", message) for message in mistakes(name, arguments))


def mistakes(name: str, arguments: str) -> Iterator[str]:
    rest = arguments
    while match := re.match(r"--([\w-]+)(?:=\S*)?\s*", rest):
        rest = rest[match.end() :]
        if match[1] not in FLAGS.get(name, ()):
            yield f"{name} has no option --{match[1]}"
    if not rest:
        yield f"{name} needs arguments"
    elif name == "FROM" and not FROM.fullmatch(rest):
        yield f"FROM {rest}: write FROM image [AS name]"
    elif name in ("COPY", "ADD") and "<<" not in rest and not rest.startswith("[") and len(rest.split()) < 2:
        yield f"{name} needs a source and a destination"
    elif name in ("CMD", "ENTRYPOINT", "RUN", "SHELL", "VOLUME") and rest.startswith("["):
        yield from exec_form(name, rest)
    elif name == "SHELL":
        yield "SHELL takes a JSON list"
    elif name == "ENV" and "=" not in rest.split()[0] and len(rest.split()) < 2:
        yield "ENV needs NAME=value"


def exec_form(name: str, text: str) -> Iterator[str]:
    """A list that is no JSON is run as shell text, without a word."""
    try:
        words = json.loads(text)
    except ValueError:
        if not re.match(r"\[\[?\s", text):  # the shell's own test
            yield f"{name}: not a JSON list (double quotes), so Docker runs it as shell text"
        return
    if not all(isinstance(word, str) for word in words):
        yield f"{name}: a list of strings"


DOCKERFILE = Dialect("dockerfile", each(check), aliases=("docker", "containerfile"))
