"""Packages that are refused."""

import os
from typing import Any

from tests.cli.bad import Bad, Ground

GOOD = """\
name: touch
steps:
  - id: first
    command: { run: "echo one > one.txt", shell: true, scope: everything, effect: workspace }
  - id: second
    needs: [first]
    command: { run: "echo two > two.txt", shell: true, scope: ["*.txt"], effect: workspace }
"""
RUN = "run p.yaml --repo REPO"


def package(text: str | bytes, place: str, code: str = "package-invalid", **more: Any) -> Bad:
    """A package whose problem is at ``p.yaml:`` ``place``."""
    return Bad(words=RUN, code=code, place=f"p.yaml:{place}", files={"p.yaml": text}, **more)


def edited(old: str, new: str, place: str, code: str = "package-invalid", **more: Any) -> Bad:
    assert old in GOOD
    return package(GOOD.replace(old, new), place, code, **more)


def _link_out(ground: Ground) -> None:
    (ground.here / "out.md").symlink_to("/etc/hostname")


def _pipe(ground: Ground) -> None:
    os.mkfifo(ground.here / "p.yaml")


CODER = (
    'roles: { coder: { instructions: FILE } }\nsteps: [{ id: a, generate: { role: coder, prompt: x } }]\nname: "x"\n'
)

PACKAGES = {
    "unknown key": edited("name: touch", "name: touch\npriority: 1", "2: 'priority' is not a known key", process=True),
    "unknown key of a step": edited("needs: [first]", "need: [first]", "6: 'need' is not a known key"),
    "wrong type": edited("name: touch", "name: [touch]", "1: name"),
    "wrong type of a step": edited("needs: [first]", "needs: 3", "6: steps.1.needs"),
    "cycle without a budget": edited(
        "needs: [first]", "needs: [first]\n    routes: { failure: first }", "7: nothing bounds the loop", process=True
    ),
    "circle of needs": edited("id: first", "id: first\n    needs: [second]", "4: its needs go round in a circle"),
    "unresolved target": edited(
        "needs: [first]", "needs: [first]\n    routes: { failure: nowhere }", "7: there is no step 'nowhere'"
    ),
    "unresolved need": edited("needs: [first]", "needs: [frist]", "6: there is no step 'frist'"),
    "unresolved name": edited(
        "shell: true, scope: everything",
        "env: { A: '{{ steps.nope.output }}' }, shell: true, scope: everything",
        "4: there is no step 'nope'",
    ),
    "an input that is not declared": edited(
        "scope: everything", "env: { A: '{{ input.a }}' }, scope: everything", "4: there is no input 'a'"
    ),
    "unclosed expression": edited("scope: everything", "env: { A: '{{ 1 +' }, scope: everything", "4: "),
    "two steps of one id": edited("id: second", "id: first", "5: the id 'first' stands twice"),
    "a reserved id": edited("id: second", "id: completed", "5: 'completed' is reserved"),
    "an id that is a path": edited("id: second", "id: ../second", "5: steps.1.id"),
    "an id with a space": edited("id: second", "id: the second", "5: steps.1.id"),
    "an id of 300 characters": edited("id: second", f"id: {'s' * 300}", "5: steps.1.id"),
    "an id that is not ASCII": edited("id: second", "id: zw\N{LATIN SMALL LETTER O WITH DIAERESIS}", "5: steps.1.id"),
    "a name of 300 characters": edited("name: touch", f"name: {'n' * 300}", "1: name"),
    "what is not built": edited(
        'command: { run: "echo two > two.txt", shell: true, scope: ["*.txt"], effect: workspace }',
        "foreach: {}",
        "7: ",
        "kind-not-built",
    ),
    "a scope that escapes": edited('["*.txt"]', '["../*.txt"]', "7: steps.1.command.scope", process=True),
    "a scope over .git": edited('["*.txt"]', '[".git/**"]', "7: steps.1.command.scope"),
    "a working directory that escapes": edited("shell: true, scope: e", "shell: true, cwd: ../.., scope: e", "4: cwd"),
    "a set-up that escapes": edited("name: touch", "name: touch\nsetup: [{ copy: ../x }]", "2: '../x'"),
    "instructions that escape": package(CODER.replace("FILE", "../../etc/hostname"), "1: '../../etc/hostname'"),
    "absolute instructions": package(CODER.replace("FILE", "/etc/hostname"), "1: '/etc/hostname'"),
    "linked instructions": package(
        CODER.replace("FILE", "out.md"), "1: 'out.md': leads out of the package's folder", prepare=_link_out
    ),
    "missing instructions": package(CODER.replace("FILE", "none.md"), "1: 'none.md'"),
    "a schema from the network": edited(
        "name: touch", "name: touch\ninput: { a: { $ref: 'http://127.0.0.1:1/x' } }", "2: 'http://127.0.0.1:1/x'"
    ),
    "a misspelt schema": edited("name: touch", "name: touch\ninput: { a: { typ: string } }", "2: 'typ'"),
    "no bytes": package(b"", "1: is empty"),
    "binary": package(bytes(range(256)), "2: is not UTF-8"),
    "UTF-16": package(GOOD.encode("utf-16"), "1: is not UTF-8"),
    "tabs": package(GOOD.replace("  ", "\t"), "3: is not YAML"),
    "duplicate keys": package(GOOD + "name: again\n", "8: the key 'name' stands twice"),
    "an alias bomb": package("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "1: '&a': anchors"),
    "a merge key": package(GOOD + "x: { <<: {} }\n", "8: '<<'"),
    "a tag": package("name: !!python/object/apply:os.system [id]\n", "1: "),
    "two documents": package(GOOD + "---\n" + GOOD, "8: a second document"),
    "YAML 1.1": package("%YAML 1.1\n---\n" + GOOD, "2: only YAML 1.2"),
    "half a character": package('name: "\\ud800"\n' + GOOD[GOOD.index("steps") :], "1: '\\ud800' holds half"),
    "endless nesting": package(b"[" * 100_000, "1: is nested deeper than 64"),
    "five megabytes": Bad(
        words=RUN, code="package-invalid", place="'p.yaml' cannot be read", files={"p.yaml": b"a: " + b"x" * 5_000_000}
    ),
    "no file": Bad(words=RUN, code="package-invalid", place="'p.yaml' cannot be read"),
    "a folder": Bad(words="run .. --repo REPO", code="package-invalid", place="'..' cannot be read"),
    "a pipe": Bad(words=RUN, code="package-invalid", place="'p.yaml' cannot be read", prepare=_pipe),
    "a package's name of 300": Bad(words=f"check {'x' * 300}", code="package-invalid", place="File name too long"),
}
