"""`module:function`, the way to name a function in YAML; checked without importing the module.

Importing would run the user's code, and with it most often TensorFlow.
"""

from __future__ import annotations

import ast
import importlib.machinery
import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tfdist.problems import nearest, shown

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def mistake(text: str) -> tuple[str, str] | None:
    """Says what is wrong with a `module:function`, and the fix; None if the function seems to be there."""
    if not _FORM.fullmatch(text):
        return f"{shown(text)} is not of the form module:function.", _fix_form(text)
    module, _, function = text.partition(":")
    if module in sys.modules:
        return None
    spec: importlib.machinery.ModuleSpec | None = None
    folders: Sequence[str] | None = None
    name = ""
    for part in module.split("."):
        parent, name = name, f"{name}.{part}" if name else part
        spec = _find(name, folders) if folders is not None or not parent else None
        if spec is None:
            return _no_such_module(name, parent, folders)
        folders = spec.submodule_search_locations
    return _no_such_function(module, function, spec)


def _fix_form(text: str) -> str:
    if text.endswith(".py") or ".py:" in text or "/" in text:
        path, _, function = text.partition(":")
        module = path.removesuffix(".py").strip("./").replace("/", ".")
        return f"write {module}:{function or 'build_model'}, a module name and not a file name"
    module, dot, function = text.rpartition(".")
    if dot and ":" not in text:
        return f"write {module}:{function}, with a colon before the function"
    return 'write, say, "my_model:build_model" for the function build_model in my_model.py'


def _find(name: str, folders: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders)
        if spec is not None:
            return spec
    # A console script does not look in the current folder, but `tfdist fit` will.
    return importlib.machinery.PathFinder.find_spec(name, [str(Path.cwd())]) if folders is None else None


def _no_such_module(name: str, parent: str, folders: Sequence[str] | None) -> tuple[str, str]:
    if parent:
        siblings = [f"{parent}.{found.name}" for found in pkgutil.iter_modules(folders or [])]
        where = f"in the package {parent}" if folders is not None else f"in {parent}, which is not a package"
    else:
        siblings = [found.name for found in pkgutil.iter_modules([str(Path.cwd())])]
        where = f"installed or in {Path.cwd()}"
    meant = nearest(name, siblings)
    return (
        f"there is no module {name} {where}.",
        f"did you mean {meant}?" if meant else "check the name, or run from the folder that holds the module",
    )


def _no_such_function(
    module: str, function: str, spec: importlib.machinery.ModuleSpec | None
) -> tuple[str, str] | None:
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # Importing it will say more.
    names = _names_defined(tree)
    if names is None or function.partition(".")[0] in names:
        return None
    meant = nearest(function, names)
    functions = ", ".join(sorted(name for name in names if not name.startswith("_"))[:6])
    return (
        f"the module {module} has no {function} (looked in {spec.origin}).",
        f"did you mean {module}:{meant}?"
        if meant
        else f"name a function of it: {functions or 'it has none'}",
    )


def _names_defined(tree: ast.Module) -> set[str] | None:
    """Gives the names a module may define; None if its source alone cannot tell."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "globals":
            return None
    return None if "*" in names or "__getattr__" in names else names
