"""Imports point down and never in a circle, rooms and files stay small, and public things have docstrings."""

import ast
import pathlib

import pytest

from tests import known

ROOT = pathlib.Path(__file__).parents[1]
HOUSES = ("lwt", "studies", "benchmarks", "configs")
FILES = {  # module name -> file
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for house in HOUSES
    for path in sorted((ROOT / house).rglob("*.py"))
}
LWT = [name for name in FILES if name.split(".")[0] == "lwt"]
FLOORS = {  # room of lwt -> its floor: a file imports from lower floors, and from its own room
    room: floor
    for floor, rooms in enumerate(
        (
            "errors",
            "values",
            "trees registry files extras",
            "machine",
            "layers attention reparam data metrics",
            "models",
            "tasks",
            "huggingface",
            "runs",
            "training",
            "compress",
            "export",
            "report",
            "inspect",
            "quickstart demo classify",
            "estimators",
            "commands",
            "__main__",
        )
    )
    for room in rooms.split()
}
SHARED = {  # what the neighbours of `layers` on its floor may use of it
    "lwt.layers.blocks",
    "lwt.layers.linear",
    "lwt.layers.quantized_weight",
    "lwt.layers.dropout",
    "lwt.layers.products",
    "lwt.layers.conv",
    "lwt.layers.listen",
}
EXCEPTIONS = {  # (module, what it may import): the attentions are listed once, torchvision is mended once
    ("studies.lighter.architectures", "studies.attention.study"),
    ("studies.lighter.architectures", "studies.attention.variants"),
    ("benchmarks.attention_page", "studies.attention.variants"),
    ("benchmarks.lwt.attention", "studies.attention.variants"),
    ("studies.pretrained.peft_side", "benchmarks.torch.timm"),
}
SINGLE = {"studies"}  # rooms with one file
LINES = 300  # of a file
CONTRACTS = {"expand", "batch"}  # methods whose arguments docs/design puts in order


def imports(path):
    """Full names of all modules that a file imports, those imported inside functions included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.add(full if full in FILES else node.module)
    return found


GRAPH = {name: imports(path) & set(FILES) for name, path in FILES.items()}


def objection(importer, imported):
    """Why `importer` should not import `imported`, both modules of ours; None if it may."""
    if (importer, imported) in EXCEPTIONS:
        return None
    (house, *mine), (other_house, *other) = importer.split("."), imported.split(".")
    if house != "lwt":
        return objection_above(house, mine, other_house, other)
    if other_house != "lwt":
        return "lwt knows nothing of studies, benchmarks and configs"
    if not mine or not other:  # the package itself: its version, and `load`, which opens the door late
        return None
    if mine[0] == other[0] or (imported in SHARED and FLOORS[mine[0]] == FLOORS[other[0]]):
        return None
    if mine[0] == "tasks" and other[0] == "models":
        return "a task receives `apply` and knows no model"
    return None if FLOORS[other[0]] < FLOORS[mine[0]] else "imports point down"


def objection_above(house, mine, other_house, other):
    """The same for an importer in a house above lwt."""
    if house == "configs":
        return None if other_house == "configs" else "a config holds values only"
    if other_house in ("lwt", "configs"):
        return None
    if house == other_house == "studies":
        return None if mine[:1] == other[:1] else "studies do not import each other"
    return None if house == other_house else f"{house} do not import {other_house}"


def circles(graph):
    """Sets of modules that import each other, directly or through others."""
    reached = {name: set(edges) for name, edges in graph.items()}
    for middle in graph:
        for name in graph:
            if middle in reached[name]:
                reached[name] |= reached[middle]
    return {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}


def public(tree):
    """Functions and classes of a module that others may use."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]


@pytest.mark.parametrize("name", sorted(FILES))
def test_imports_point_down(name):
    room = name.split(".")[1:2]
    assert name.split(".")[0] != "lwt" or not room or room[0] in FLOORS, f"{name} is on no floor; add it to FLOORS"
    assert {imported: reason for imported in GRAPH[name] if (reason := objection(name, imported))} == {}


def test_the_rule_knows_right_from_wrong():
    for importer, imported in (
        ("lwt.trees", "lwt.layers.linear"),
        ("lwt.data.text", "lwt.metrics.exact"),
        ("lwt.attention.softmax", "lwt.layers.mlp"),
        ("lwt.models.seq2seq", "lwt.tasks.translate"),
        ("lwt.tasks.translate", "lwt.models.seq2seq"),
        ("lwt.runs.integer_file", "lwt.inspect.cost"),
        ("lwt.training.loop", "lwt.quickstart"),
        ("lwt.report.study", "studies.radar.study"),
        ("studies.radar.study", "studies.vertical.study"),
        ("studies.radar.study", "benchmarks.common"),
        ("configs.vit", "lwt.models.vit"),
    ):
        assert objection(importer, imported), (importer, imported)
    for importer, imported in (
        ("lwt.data.text", "lwt.errors"),
        ("lwt.reparam.lora", "lwt.layers.linear"),
        ("lwt.tasks.translate", "lwt.tasks.decoding"),
        ("lwt.training.build", "lwt.models.seq2seq"),
        ("lwt.quickstart", "lwt.report.plots"),
        ("studies.radar.study", "lwt.report.study"),
        ("benchmarks.work.samples", "configs.common"),
    ):
        assert objection(importer, imported) is None, (importer, imported)


def test_exceptions_are_needed():
    assert {pair for pair in EXCEPTIONS if pair[1] not in GRAPH[pair[0]]} == set()


def test_there_is_no_circle():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {frozenset("bc")}
    assert circles(GRAPH) == set()


def test_data_never_reaches_jax():
    reached, waiting = set(), [name for name in LWT if name.startswith("lwt.data")]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(GRAPH[name])
            roots = {imported.split(".")[0] for imported in imports(FILES[name])}
            assert not roots & {"jax", "flax", "optax", "orbax", "chex"}, f"{name} is used by data/ and imports {roots}"


def test_nothing_imports_the_programs():
    for name, path in FILES.items():
        assert not {imported.split(".")[0] for imported in imports(path)} & {"train", "eval", "export", "tests"}, name


def test_modules_are_imported_not_names():
    for path in [*FILES.values(), *ROOT.glob("*.py"), *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in HOUSES:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                assert set(names) <= set(FILES), f"{path}:{node.lineno}: import the module, not {names}"


@pytest.mark.parametrize("name", FILES)
def test_modules_and_public_things_have_docstrings(name):
    tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), f"{FILES[name]} does not say what it holds"
    if name.split(".")[0] != "benchmarks":
        assert [node.name for node in public(tree) if not ast.get_docstring(node)] == []


def test_rooms_have_two_to_twenty_files():
    rooms = {path.parent for path in FILES.values()}
    counts = {str(room.relative_to(ROOT)): len(list(room.glob("*.py"))) for room in rooms}
    assert {room: count for room, count in counts.items() if count > 20} == {}
    assert {room for room, count in counts.items() if count < 2} == SINGLE


def test_the_map_in_the_design_has_every_room():
    text = (ROOT / "docs/design/README.md").read_text(encoding="utf-8").split("```")[1]
    named = {line.split()[0].removesuffix("/").removesuffix(".py") for line in text.splitlines() if line.strip()}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert set(FLOORS) | (folders & {*HOUSES, "docs", "notebooks", "pretrained", "tests"}) == named


def test_files_stay_small():
    paths = [*ROOT.glob("*.py"), *FILES.values(), *(ROOT / "tests").rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {path: count for path, count in lines.items() if count > known.LONG.get(path, LINES)} == {}


def positional(name):
    """Public functions and methods of a module that take more than two arguments by position."""
    found = []
    for node in public(ast.parse(FILES[name].read_text(encoding="utf-8"))):
        methods = isinstance(node, ast.ClassDef)
        for function in node.body if methods else [node]:
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_") or function.name in CONTRACTS:
                continue
            static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in function.decorator_list)
            count = len(function.args.posonlyargs + function.args.args) - (methods and not static)
            if count > 2:
                found.append(f"{node.name}.{function.name}" if methods else function.name)
    return found


@pytest.mark.parametrize("name", LWT)
def test_arguments_after_the_second_are_keyword_only(name):
    found = positional(name)
    assert len(found) <= known.POSITIONAL.get(name, 0), found


def test_functions_are_not_lambdas_with_a_name():
    paths = [*ROOT.glob("*.py"), *FILES.values(), *(ROOT / "tests").rglob("*.py")]
    marked = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("noqa: " + "E731") for path in paths}
    assert {path: count for path, count in marked.items() if count > known.LAMBDAS.get(path, 0)} == {}


def mirror(name):
    """The test of a module: ``tests/reparam/test_lora.py`` of ``lwt.reparam.lora``."""
    *room, module = name.removeprefix("lwt.").split(".")
    if FILES[name].stem == "__init__" and name != "lwt":
        room.append(module)
    return ROOT.joinpath("tests", *room, f"test_{module.strip('_')}.py")


def room_of(name):
    return name.rpartition(".")[0]


def test_tests_mirror_the_modules():
    """A module that only its neighbours import may be tested through one of them: it is a part of that module."""
    missing = []
    for name in FILES:
        program = name.endswith("__main__")
        if name.split(".")[0] not in ("lwt", "studies") or program or name in known.ELSEWHERE:
            continue
        users = {user for user, imported in GRAPH.items() if name in imported}
        own_part = {room_of(user) for user in users} == {room_of(name)} and any(mirror(user).exists() for user in users)
        has_parts = public(ast.parse(FILES[name].read_text(encoding="utf-8")))
        if has_parts and not mirror(name).exists() and not own_part:
            missing.append(name)
    assert missing == []


def test_modules_tested_elsewhere_are_reached_from_there():
    for name, test in known.ELSEWHERE.items():
        reached, waiting = set(), [*imports(ROOT / "tests" / test) & set(FILES)]
        while waiting:
            module = waiting.pop()
            if module not in reached:
                reached.add(module)
                waiting.extend(GRAPH[module])
        found_by_name = test.endswith("test_contract.py")  # all files of its room
        assert name in FILES and (name in reached or found_by_name), f"tests/{test} does not use {name}"
