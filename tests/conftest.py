"""Settings and fixtures of all tests. The environment must be set before jax is imported."""

import gc
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
from importlib import metadata

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")  # else every program starts anew to set it
os.environ.setdefault("NPROC", "16")  # threads of XLA: simulated devices can deadlock when there are fewer than devices
# Most of the time goes into compiling programs that run once or twice on tiny arrays. Compiling without optimisation,
# with XLA's older and simpler kernels, and in one piece (every core has tests to run) takes a third of the time.
# `XLA_FLAGS= make test` compiles as users do.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    " --xla_cpu_opt_preset=CPU_OPT_PRESET_FAST_COMPILE"
    # gone in later releases, which end at a flag that they do not know
    + (" --xla_cpu_use_fusion_emitters=false" if metadata.version("jaxlib").startswith("0.10.") else ""),
)

import jax
import jaxtyping
import pytest

from tests import type_checker

gc.set_threshold(100_000, 20, 50)  # tracing makes many objects and little garbage: a twentieth less

# Types and shapes in annotations are checked here and nowhere else. Not hooked: `layers.linear` and
# `layers.quantized_weight`, whose pytree nodes pass through jax.tree.map with leaves other than arrays (shapes, labels,
# None).
LWT = pathlib.Path(__file__).parent.parent / "lwt"
CHECKED = [
    ".".join(("lwt", *path.relative_to(LWT).with_suffix("").parts))
    for folder in ("attention", "data", "layers", "metrics", "models", "reparam", "tasks")
    for path in sorted((LWT / folder).rglob("[a-z]*.py"))
    if path.stem not in ("linear", "quantized_weight") or folder != "layers"
]
jaxtyping.install_import_hook(CHECKED, f"{type_checker.__name__}.check")

LONG = (
    "test_campaign.py",
    "notebooks",
    "configs",
    "training",
    "studies",
    "inspect",
    "demo",
)  # slow folders
COMPILED_ONCE = ("machine", "runs", "training")  # folders all of whose tests keep what they compile
MEMORY = 3 << 30  # bytes that a worker may hold when a file's tests have finished


def pytest_collection_modifyitems(items):
    """Marks slow tests, and starts slow folders first, so that no worker is left alone with them at the end.

    See also `COMPILED_ONCE`.
    """
    slow = set((LWT.parent / "tests/slow.txt").read_text().split())

    def folder(item):
        return item.path.relative_to(LWT.parent / "tests").parts[0]

    items.sort(key=lambda item: LONG.index(folder(item)) if folder(item) in LONG else len(LONG))
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")
        if folder(item) in COMPILED_ONCE:
            item.fixturenames.insert(0, "compiled_once")


@pytest.fixture(scope="session")
def tiny():
    """``tiny(changes) -> config`` of a run that takes a second (`training/tiny.py`); changes by dotted key, a section
    as a whole is replaced."""
    from lwt.runs import config_file

    def tiny(changes=None):
        config = config_file.load(str(pathlib.Path(__file__).parent / "training/tiny.py"))
        with config.unlocked():
            for key, value in (changes or {}).items():
                *section, last = key.split(".")
                place = config
                for name in section:
                    place = place[name]
                if isinstance(value, dict):
                    del place[last]
                place[last] = value
        return config

    return tiny


@pytest.fixture(scope="session")
def untrained():
    """``untrained(config, workdir) -> the opened run``, with random weights, biases and scales too."""
    import jax.numpy as jnp
    import numpy as np

    from lwt import trees
    from lwt.runs import assembly, checkpoint, experiment, run_config

    def untrained(config, workdir):
        run_config.keep(config, workdir)
        data, generator = assembly.make_data(config, workdir), np.random.default_rng(0)
        model = assembly.make_model(config, data.vocabulary, outputs=data.outputs)
        shapes = jax.eval_shape(lambda: assembly.init_weights(model, jax.random.key(0)))
        weights = {name: jnp.asarray(generator.normal(0, 0.3, w.shape), jnp.float32) for name, w in shapes.items()}
        trainable = trees.with_prefix(weights, "base")
        checkpoint.save_initial(workdir, config, trainable, identity={**data.identity, "base": ""})
        return experiment.load(workdir)

    return untrained


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Folder of compiled programs, one for all processes that share the tests; `JAX_COMPILATION_CACHE_DIR` names one
    that is kept."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return os.environ["JAX_COMPILATION_CACHE_DIR"]
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    folder.mkdir(exist_ok=True)
    return str(folder)


@pytest.fixture(scope="module")
def compiled_once(cache):
    """For the tests of a file that train runs: what another such file has compiled is not compiled again."""
    from lwt.training import programs

    options = {"jax_compilation_cache_dir": cache, "jax_persistent_cache_min_compile_time_secs": 0.1}
    programs.KEPT = 32  # tests of other files train the same runs
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="module", autouse=True)
def bounded():
    """Forgets what was compiled if it takes much memory; files that follow each other have many programs in common."""
    yield
    try:
        held = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:  # not Linux
        held = MEMORY
    if held >= MEMORY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def config_file(tmp_path):
    """``config_file(config) -> path`` of a file for the flag ``--config``."""

    def config_file(config):
        path = tmp_path / "config_file.py"
        text = json.dumps(config.to_dict())
        path.write_text(
            f"import json\nimport ml_collections\n\ndef get_config():\n"
            f"    return ml_collections.ConfigDict(json.loads({text!r}))\n"
        )
        return path

    return config_file


@pytest.fixture(scope="session")
def start(cache):
    """``start(program, *arguments, **environment) -> Popen`` of train.py or eval.py."""

    def start(*command, **environment):
        own = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=LWT.parent,
            env={**os.environ, **own, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def rows():
    """``rows(workdir) -> [dict]`` of metrics.jsonl, without what a clock says."""

    def rows(workdir):
        clock = ("time", *(f"train/{unit}_per_second" for unit in ("tokens", "examples", "steps")))
        lines = (pathlib.Path(workdir) / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in clock} for line in lines]

    return rows


@pytest.fixture
def browser():
    """The headless Chromium on the path."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no chromium on the path")
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()
