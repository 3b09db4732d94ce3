"""Imports point down, public things say what they are, files stay small."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
FILES = {  # module name -> file, for all of lwt
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "lwt").rglob("*.py"))
}
FLOORS = {  # a file imports from lower floors, and from its own folder
    name: floor
    for floor, names in enumerate(
        (
            "errors",
            "trees registry files",
            "layers attention reparam data metrics machine",
            "models",
            "tasks",
            "runs",
            "training",
            "compress",
            "export",
            "report",
            "inspect",
            "quickstart demo",
        )
    )
    for name in names.split()
}
SHARED = {
    "lwt.layers.linear",
    "lwt.layers.quantized_weight",
    "lwt.layers.dropout",
    "lwt.layers.attend",
    "lwt.layers.conv",
}  # what the siblings of `layers` may use of it


def imports(path):
    """Full names of all modules that a file imports, inside of functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= set(FILES) else {node.module}
    return found


def objection(importer, imported):
    """Why `importer` should not import `imported`, both modules of lwt; None if it may."""
    mine, other = importer.split(".")[1], imported.split(".")[1]
    if mine == other or (imported in SHARED and FLOORS[mine] == FLOORS[other]):
        return None
    if mine == "tasks" and other == "models":
        return "a task is handed `apply` and knows no model"
    return None if FLOORS[other] < FLOORS[mine] else "imports point down"


def lwt_imports(name):
    return {imported for imported in imports(FILES[name]) if imported in FILES and imported != "lwt"}


def public(tree):
    """Functions and classes of a module that others may use."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


@pytest.mark.parametrize("name", sorted(set(FILES) - {"lwt"}))  # lwt.load opens `training` late, on purpose
def test_imports_point_down(name):
    assert name.split(".")[1] in FLOORS, f"{name} lives on no floor; give it one in FLOORS"
    assert {imported: reason for imported in lwt_imports(name) if (reason := objection(name, imported))} == {}


def test_the_rule_knows_right_from_wrong():
    for importer, imported in (
        ("lwt.trees", "lwt.layers.linear"),
        ("lwt.data.text", "lwt.metrics.token"),
        ("lwt.attention.softmax", "lwt.layers.mlp"),
        ("lwt.models.seq2seq", "lwt.tasks.translate"),
        ("lwt.tasks.translate", "lwt.models.seq2seq"),
        ("lwt.runs.integer_file", "lwt.inspect.cost"),
        ("lwt.training.loop", "lwt.quickstart"),
    ):
        assert objection(importer, imported), (importer, imported)
    for importer, imported in (
        ("lwt.data.text", "lwt.errors"),
        ("lwt.reparam.lora", "lwt.layers.linear"),
        ("lwt.tasks.translate", "lwt.tasks.decoding"),
        ("lwt.training.build", "lwt.models.seq2seq"),
        ("lwt.quickstart", "lwt.report.plots"),
    ):
        assert objection(importer, imported) is None, (importer, imported)


def test_data_never_reaches_jax():
    reached, waiting = set(), [name for name in FILES if name.startswith("lwt.data")]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(lwt_imports(name))
            roots = {imported.split(".")[0] for imported in imports(FILES[name])}
            assert not roots & {"jax", "flax", "optax", "orbax", "chex"}, f"{name} is used by data/ and imports {roots}"


def test_configs_hold_values_only():
    for path in (ROOT / "configs").glob("*.py"):
        assert "lwt" not in {name.split(".")[0] for name in imports(path)}, path


def test_nothing_imports_the_programs():
    for name, path in FILES.items():
        assert not {imported.split(".")[0] for imported in imports(path)} & {"train", "eval", "tests"}, name


def test_modules_are_imported_not_names():
    for path in [*FILES.values(), *ROOT.glob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "lwt":
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                assert set(names) <= set(FILES), f"{path}:{node.lineno}: import the module, not {names}"


@pytest.mark.parametrize("name", FILES)
def test_public_things_have_docstrings(name):
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), f"{FILES[name]} does not say what it holds"
    assert [node.name for node in public(tree) if not ast.get_docstring(node)] == []


def test_files_stay_small():
    folders = ("lwt", "configs", "tests", "benchmarks")
    paths = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: count for path, count in lines.items() if count > 400} == {}
