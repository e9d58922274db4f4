"""The committed reference is what the package says of itself."""

import importlib.util

import pytest

import destage
from conftest import ROOT


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "python" / "tools" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_of_this_package(tool):
    assert tool.FILE.read_text(encoding="utf-8") == tool.reference(), "`make reference` writes it anew"


def test_the_reference_has_all_names(tool):
    headings = [line[3:] for line in tool.reference().splitlines() if line.startswith("## ")]
    assert headings == [name for name in destage.__all__ if not name.startswith("_")]


def test_the_reference_says_something_of_each(tool):
    """Nothing of the package is without a docstring, from which the reference is made."""
    for name in destage.__all__:
        thing = getattr(destage, name)
        members = [thing, *(value for key, value in vars(thing).items() if not key.startswith("_"))] if isinstance(thing, type) else [thing]
        for member in members:
            if callable(member) or isinstance(member, property):
                assert (member.__doc__ or "").strip(), (name, member)
