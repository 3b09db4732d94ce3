"""What still breaks the house rules of `tests/test_architecture.py`, and by how much; these lists may only shrink."""

LONG = {"lwt/runs/checkpoint.py": 340}
POSITIONAL = {  # public functions that take more than two arguments by position
    "lwt.attention.linear": 2,
    "lwt.attention.parts.blockwise": 1,
    "lwt.attention.parts.core": 4,
    "lwt.attention.parts.polynomial": 1,
    "lwt.layers.image_conv": 1,
    "lwt.layers.linear": 1,
    "lwt.models.seq2seq": 2,
    "lwt.runs.checkpoint": 1,
    "lwt.training.checks": 3,
}
LAMBDAS = {}  # lambdas that have a name
ELSEWHERE = {  # modules without a test file of their own -> the file of tests/ that tests them
    "lwt": "export/test_bundle.py",
    "lwt.attention.parts.base": "attention/test_softmax.py",
    "lwt.attention.parts.blockwise": "attention/test_softmax.py",
    "lwt.attention.parts.masks": "attention/test_contract.py",
    "lwt.attention.parts.polynomial": "attention/test_approximate.py",
    "lwt.export.folders": "export/test_every_form.py",
    "lwt.layers.image_conv": "models/test_lh_vit.py",
    "lwt.layers.losses.soft_loss": "tasks/test_distill.py",
    "lwt.layers.sublayers": "compress/test_structured.py",
    "lwt.layers.weight_gradient": "attention/parts/test_core.py",
    "lwt.models.cnn": "models/test_lh_vit.py",
    "lwt.models.mamba": "models/test_text_models.py",
    "lwt.reparam.dora": "reparam/test_lora.py",
    "lwt.reparam.none": "reparam/test_contract.py",
    "lwt.reparam.singlora": "reparam/test_lora.py",
    "lwt.reparam.targets": "reparam/test_lora.py",
    "lwt.runs.bundle": "export/test_bundle.py",
    "lwt.training.train": "training/test_resume.py",
}
