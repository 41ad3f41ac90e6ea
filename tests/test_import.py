import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import estim

HEAVY = ("numba", "scipy", "statsmodels", "matplotlib", "pandas", "mpmath", "flint", "tqdm", "torch", "jax")


def run(code):
    """Run code in a new interpreter, which must end well and silently on stderr, and return what it printed."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def loaded(code):
    return set(run(f"{code}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))").split())


def test_importing_estim_imports_nothing_heavy():
    assert not loaded("import estim, estim as e; dir(e); e.__all__; e.__version__") & {*HEAVY, "numpy"}


def test_an_interrupt_finds_the_command_line_not_importing():
    """What is imported before `main` has begun ends in a traceback on Ctrl-C."""
    assert not loaded("import estim.cli") & {*HEAVY, "numpy"}


def test_making_and_calling_a_response_needs_neither_numba_nor_statsmodels_nor_a_picture():
    code = "import estim; estim.MeanResponse(lambda t: t**2, upper=1.0)(0.5)"
    assert not loaded(code) & {"numba", "statsmodels", "matplotlib", "pandas", "mpmath", "flint"}


def test_the_exact_method_needs_no_compiler():
    code = "import estim; estim.recover(estim.MeanResponse(lambda t: t**2, upper=1.0), 0.5, 0.1, method='exact')"
    assert not loaded(code) & {"numba", "statsmodels", "matplotlib", "pandas", "mpmath", "flint"}


def test_dir_lists_the_public_names_and_the_version():
    assert sorted([*estim.__all__, "__version__"]) == dir(estim)
    assert len(set(estim.__all__)) == len(estim.__all__)


def test_the_names_of_one_unknown_are_public_and_remembered():
    for name in ("MeanResponse", "Recovery", "recover"):
        assert name in estim.__all__
        value = getattr(estim, name)
        assert value.__name__ == name
        assert vars(estim)[name] is value
        assert value.__doc__


def test_an_unknown_name_is_an_attribute_error_that_names_it():
    with pytest.raises(AttributeError, match=r"^module 'estim' has no attribute 'recovr'$"):
        estim.recovr  # noqa: B018
    with pytest.raises(ImportError, match="recovr"):
        exec("from estim import recovr")


def mentions(pattern):
    """Return what a pattern finds in the library, its documents and its examples, and in which file."""
    root = Path(estim.__file__).parents[1]
    files = [file for kind in ("*.md", "docs/*.md", "estim/**/*.py", "examples/**/*.py") for file in root.glob(kind)]
    return {name: file for file in files for name in re.findall(pattern, file.read_text())}


def exists(path):
    """Tell whether a dotted name is a module of the library, or an attribute of one; not looked into without torch."""
    value = estim
    for end, part in enumerate(path[1:], start=2):
        if not hasattr(value, part):
            if importlib.util.find_spec(".".join(path[:end])) is None:
                return False
            if {"torch", "jax"} & set(path) and not importlib.util.find_spec(path[2]):
                return True
            importlib.import_module(".".join(path[:end]))
        value = getattr(value, part)
    return True


def test_every_public_name_that_is_mentioned_exists():
    mentioned = mentions(r"\bestim(?:\.[A-Za-z_]+)+")
    assert len(mentioned) > 50
    assert not {name: file for name, file in mentioned.items() if not exists(name.split("."))}


def test_every_attribute_of_a_public_class_that_is_mentioned_exists():
    for name, file in mentions(rf"\b((?:{'|'.join(estim.__all__)})\.[a-z_]+)\b").items():
        owner, attribute = name.split(".")
        value = getattr(estim, owner)
        if isinstance(value, type):
            fields = getattr(value, "__dataclass_fields__", {})
            assert hasattr(value, attribute) or attribute in fields, f"{name} in {file}"


def test_no_module_carries_the_name_of_a_public_function():
    modules = {module.name for module in pkgutil.iter_modules(estim.__path__)}
    assert modules & set(estim.__all__) <= {"attention"}  # a subpackage, public as such


def test_the_version_is_that_of_the_distribution():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", estim.__version__)


def test_importing_a_submodule_leaves_the_public_function_in_place():
    run("import estim, estim.recovery, estim.recovery.response; assert callable(estim.recover)")


def test_the_package_says_that_it_is_typed():
    assert os.path.exists(os.path.join(os.path.dirname(estim.__file__), "py.typed"))


def test_star_import_brings_what_all_says():
    """Left to the names of one unknown where other modules are not there yet."""
    for name in ("MeanResponse", "Recovery", "recover"):
        assert getattr(importlib.import_module("estim"), name) is not None


def test_signatures_fit_a_line_or_two_of_help():
    """NumPy's own name for what an array may be made of takes five lines where it is written out."""
    shown = {name: getattr(estim, name) for name in estim.__all__}
    kinds = {name: kind for name, kind in shown.items() if inspect.isclass(kind)}
    members = {f"{name}.{m}": getattr(kind, m) for name, kind in kinds.items() for m in vars(kind) if m[0] != "_"}
    for name, function in {**shown, **members}.items():
        if inspect.isroutine(function):
            assert "_NestedSequence" not in str(inspect.signature(function)), name
