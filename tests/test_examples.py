"""The examples and the README's Python run, in a process of their own, with warnings as errors."""

import ast
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def run(arguments, folder):
    command = [sys.executable, "-W", "error", *arguments]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_example_runs_and_says_something(path, tmp_path):
    assert run([str(path)], tmp_path).strip()


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.stem)
def test_the_example_imports_public_names_only(path):
    import estim

    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module == "estim":
            assert {alias.name for alias in node.names} <= set(estim.__all__)
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        assert {name for name in names if name.split(".")[0] == "estim"} <= {"estim", "estim.attention"}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_python_of_the_readme_runs(block, tmp_path):
    for library in ("torch", "jax"):
        if f"import {library}" in block and find_spec(library) is None:
            pytest.skip(f"needs {library}")
    run(["-c", block], tmp_path)


def test_the_readme_has_its_two_commands():
    commands = re.findall(r"^```sh\n(python3 -m venv .*)\n```$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    assert "python -m sims recovery" in commands[0]
    assert commands[1].endswith("-m pytest")
