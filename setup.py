"""lwt, lightweight transformers in JAX. Ranges are what was tried; a comment says why a bound is there.

PyTorch is the independent reference of the tests and the opponent of the benchmarks. lwt itself imports it for one
thing, torchvision's RandAugment, with the extra ``augment``. TensorFlow is needed by nothing here: TFDS is used through
its record files alone.
"""

import pathlib
import re

import setuptools

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+?)"', (ROOT / "lwt" / "__init__.py").read_text(encoding="utf-8")).group(1)

# Python 3.11 ends at jax 0.10.2; newer Pythons get a newer jax from the same range.
JAX = ">=0.10.2,<0.13"
# Exactly this release: the benchmarks compare with it. Linux wheels of the default index carry CUDA; for the much
# smaller CPU build, install both first (torchvision's release belongs to PyTorch's):
#     pip install --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 torchvision==0.28.0
TORCH = "torch==2.13.0"
TIMM = "timm~=1.0.31"  # brings torchvision
SKLEARN = "scikit-learn~=1.9"
ROUGE = "rouge-score~=0.1.2"

RUNTIME = [
    f"jax{JAX}",
    f"jaxlib{JAX}",
    "flax>=0.12.8,<0.13",  # linen's param() hands structured weights through from here on
    "optax~=0.2.8",
    "orbax-checkpoint~=0.12.8",  # the hook before a checkpoint is committed (runs/checkpoint.py)
    "chex~=0.1.92",
    "jaxtyping>=0.3.11,<0.4",
    "numpy>=2.0,<3",
    "scipy>=1.14,<2",  # monotone cubics; jax needs it too
    "sentencepiece~=0.2.3",
    "tokenizers>=0.22,<0.24",  # of models of Hugging Face
    "sacrebleu~=2.6.0",  # its version is part of a BLEU score's signature
    "safetensors>=0.8,<0.9",
    "filelock>=3.20,<5",
    "absl-py>=2.3,<3",
    "ml_collections~=1.1",
    "tensorboardX~=2.6.5",  # writes TensorBoard's files without TensorFlow
    "matplotlib>=3.10,<4",
    "pillow>=11,<14",
    "tqdm>=4.66,<5",
]

# The sources tfds:NAME, and Parquet files.
DATA = [
    "tensorflow-datasets~=4.9.10",
    "array_record~=0.8.6",  # TFDS' files, read by index and without TensorFlow
    "importlib_resources>=6",  # TFDS imports it to prepare a data set, and does not ask for it
    "pyarrow>=20,<27",
]

# A C cross-compiler and an emulated microcontroller, to measure what lwt.export.c writes.
DEVICE = ["ziglang>=0.16,<0.18", "unicorn~=2.1"]

# Runtimes of phones and desktops. Each needs one package more, whose own bounds contradict those above, by parts of it
# that are not used: pip install --no-deps litert-converter==0.5.0 jax2onnx==0.17.1 (the Makefile does)
LITERT = ["ai-edge-quantizer==0.10.0", "ai-edge-litert==2.3.0"]
ONNX = ["onnx>=1.23,<2", "onnx-ir>=1.1,<2", "onnxruntime>=1.31,<2"]

# The page of lwt.demo. Gradio asks for Pillow < 13.
DEMO = ["gradio>=6.31,<7"]

NOTEBOOKS = ["nbclient~=0.11", "ipykernel~=7.4"]
DOCS = ["sphinx>=9.0.4,<10", "myst-parser~=5.2", "furo>=2025.12.19"]

TEST = [
    "pytest~=9.2",
    "pytest-timeout~=2.4",
    "pytest-xdist~=3.8",
    "build~=1.6",
    "setuptools>=77",  # as in pyproject.toml: the test of the wheel builds with what is installed
    "ruff~=0.17.5",  # another minor version formats differently
    "beartype~=0.23.1",
    TORCH,
    "peft~=0.21.2",
    "transformers>=5.23,<6",
    TIMM,
    SKLEARN,
    ROUGE,
    *DATA,
    *DEVICE,
    *NOTEBOOKS,
    *DEMO,
    "playwright~=1.65",  # drives the system's own Chromium
    *DOCS,
    *LITERT,
    *ONNX,
]

setuptools.setup(
    name="lwt",
    version=VERSION,
    description="Lightweight transformers in JAX: train, adapt, evaluate and shrink them.",
    license="Apache-2.0",
    packages=[*setuptools.find_packages(include=["lwt", "lwt.*"]), "lwt.configs", "lwt.pretrained"],
    package_dir={"lwt.configs": "configs", "lwt.pretrained": "pretrained"},  # a wheel has them inside the package
    package_data={
        "lwt.export.c": ["source/*", "source/*/*"],
        "lwt.export.wasm": ["source/*"],
        "lwt.pretrained": ["embbert-encoder/*"],  # of the bundles, 0.9 MB
    },
    entry_points={"console_scripts": ["lwt = lwt.__main__:main"]},
    python_requires=">=3.11",
    install_requires=RUNTIME,
    extras_require={
        "test": TEST,
        "bench": [TORCH, "peft~=0.21.2", "transformers>=5.23,<6", TIMM, SKLEARN, "ctranslate2~=4.8"],
        "data": DATA,
        "tensorboard": ["tensorboard>=2.20,<3"],
        "sklearn": [SKLEARN],  # the linear baselines
        "rouge": [ROUGE],  # scores of summaries
        "c": DEVICE,
        "litert": LITERT,
        "onnx": ONNX,
        "augment": [TORCH, "torchvision~=0.28.0"],
        "notebooks": NOTEBOOKS,
        "demo": DEMO,
        "docs": DOCS,
        "hf": ["huggingface_hub>=1.0,<3"],  # to download the models that hf:NAME names
        "cuda": [f"jax[cuda12]{JAX}"],
        "tpu": [f"jax[tpu]{JAX}"],
    },
)
