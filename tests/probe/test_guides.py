"""The texts at the head of packages, which say where everything is, name every file."""

import ast
import re
from pathlib import Path

import pytest

import estim

PROBE = Path(estim.__file__).parent / "probe"


@pytest.mark.parametrize("package", ["jax", "matrix_free", "model", "torch"])
def test_the_text_at_the_head_names_every_file_of_the_package(package):
    text = ast.get_docstring(ast.parse((PROBE / package / "__init__.py").read_text()))
    files = {path.stem for path in (PROBE / package).glob("*.py")} - {"__init__"}
    assert files == set(re.findall(r"`(\w+)`", text)) - {"matrix_free"}
