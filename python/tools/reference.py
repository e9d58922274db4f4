"""Writes docs/python-reference.md anew, from the docstrings of the package: `make reference`.

pdoc finds what there is and what is said of it; here it becomes Markdown, with types as they are written. With `--check`
nothing is written, and it ends with 1 where the file is not what the package gives.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pdoc.doc

import destage

FILE = Path(__file__).parents[2] / "docs" / "python-reference.md"
BEGINNING = """# destage in Python: reference

All names of the package `destage`, from its docstrings: `make reference` writes this file. [python.md](python.md) shows how they go together.

`Value` is text, a number, a flag, a path, a sequence of these, or a mapping of the settings below a name. `Victims` are a page, pages, or units of
pages. A `Grid` is a mapping of settings to lists of values, or several of them."""


def text(docstring: str) -> str:
    """A docstring as Markdown: what describes arguments is a list."""

    def item(found: re.Match[str]) -> str:
        return f"* `{found[1]}`: " + re.sub(r"\n +", " ", found[2])

    return re.sub(r"^(\w+): (.+(?:\n    .+)*)", item, docstring, flags=re.M).strip()


def call(name: str, of: Any) -> str:
    """How it is called: types as the source has them, which are the same in every Python."""
    shown, keywords = [], False
    signature = inspect.signature(of)
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            shown.append("*")
            keywords = True
        typed = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        equals = " = " if typed else "="
        default = "" if parameter.default is parameter.empty else f"{equals}{parameter.default!r}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        shown.append(f"{stars}{parameter.name}{typed}{default}")
    returns = "" if signature.return_annotation in (signature.empty, "None") else f" -> {signature.return_annotation}"
    line = f"{name}({', '.join(shown)}){returns}"
    if len(line) > 120:
        line = f"{name}(\n" + "".join(f"    {argument},\n" for argument in shown) + f"){returns}"
    return f"```python\n{line.replace('_destage.', '')}\n```"


def function(of: pdoc.doc.Function, level: str) -> str:
    return "\n\n".join([f"{level} {of.name}", call(of.name, of.obj), text(of.docstring)])


def variable(of: pdoc.doc.Variable, among: type) -> str:
    """A field or a property; what follows its first paragraph is kept within its place in the list."""
    inside = inspect.getattr_static(among, of.name, None)
    if isinstance(inside, property):
        kind = inspect.get_annotations(inside.fget).get("return")
    else:
        kind = inspect.get_annotations(among).get(of.name)
    kind = kind and kind.replace("_destage.", "")
    value = f" = {inside!r}" if isinstance(inside, str) else ""
    told = text(of.docstring).replace("\n", "\n  ").replace("\n  \n", "\n\n")
    return f"* `{of.name}`{f' (`{kind}{value}`)' if kind else ''}: {told}"


def a_class(of: pdoc.doc.Class) -> str:
    members = [member for member in of.own_members if member.docstring and not member.name.startswith("_")]
    variables = [variable(member, of.obj) for member in members if isinstance(member, pdoc.doc.Variable)]
    functions = [function(member, "###") for member in members if isinstance(member, pdoc.doc.Function)]
    if of.obj is destage.Table:
        # Of what is written in Rust the order is chance's.
        variables.sort()
        functions.sort()
    begin = of.obj.__dict__.get("__init__")
    # Results, findings and settings are made by destage alone.
    is_made = of.obj in (destage.Experiment, destage.Policy, destage.Trace)
    begins = [call(of.name, begin), text(inspect.getdoc(begin) or "")] if is_made else []
    fields = ["It has:\n\n" + "\n".join(variables)] if variables else []
    return "\n\n".join(part for part in [f"## {of.name}", text(of.docstring), *begins, *fields, *functions] if part)


def reference() -> str:
    module = pdoc.doc.Module(destage)
    members = [module.members[name] for name in destage.__all__ if not name.startswith("_")]
    parts = [a_class(it) if isinstance(it, pdoc.doc.Class) else function(it, "##") for it in members]
    return "\n\n".join([BEGINNING, *parts]) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(FILE.read_text(encoding="utf-8") != reference())
    FILE.write_text(reference(), encoding="utf-8")
