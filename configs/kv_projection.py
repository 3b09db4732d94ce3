"""K/V projection in a small translator and a small classifier ("Improving Transformer Efficiency with Key/Value
Projection", section "Mathematical Formulation").

    python train.py --config=configs/kv_projection.py --workdir=runs/kv
    python train.py --config=configs/kv_projection.py:form=folded,rank=8 --workdir=runs/kv-folded
    python train.py --config=configs/kv_projection.py:task=classification,rank=10,rate=5e-4 --workdir=runs/kv-emotion
    python -m studies.attention --workdir=runs/attention --only='(softmax|kv_projection_\\w+)-seed'    # all of them

form    projected: every head's queries, keys and values go from d_k to k dimensions, and the result back to d_k, as in
        the report; folded: the same functions with one matrix in place of two; softmax: attention without it
rank    k; 0: half of d_k; d_k is 32 in the translator and 40 in the classifier
task    translation: 2 + 2 layers on Multi30k, 1,000 steps; classification: BERT(2MB) on Emotion, 6 epochs
data    another set, KIND:NAME: pairs, whose fields `source` and `target` name, or labelled texts

The report has no experiments, so the tasks are this project's own. A row holds one text. The rate is 3e-3 for
translation and 2e-3 for classification. The classifier starts from small tables (`tables=small`), with which all forms
train alike. Our figures, and which form to train, are in docs/papers/kv_projection.md.
"""

from configs import common, embbert_finetune, translation

FORMS = ("projected", "folded", "softmax")
TASKS = {  # task -> config and its arguments, changes to the model, and other changes by dotted names
    "translation": dict(
        config="configs/translation.py",
        arguments=dict(data="multi30k"),
        model=dict(encoder_layers=2, decoder_layers=2),
        settings={
            "steps": 1_000,
            "eval_every": 500,
            "save_every": 500,
            "data.rows": 128,
            "optimizer.schedule.warmup": 200,
        },
    ),
    "classification": dict(
        config="configs/embbert_finetune.py",
        arguments=dict(model="bert_2mb", task="emotion", recipe="tuned", tables="small"),
        model={},
        settings={"epochs": 6.0, "data.row_length": 128},
    ),
}
FILES = {"configs/translation.py": translation, "configs/embbert_finetune.py": embbert_finetune}


def get_config(arg=""):
    """Arguments: form, rank, task, data, source, target, rate and vocabulary (0: the task's own), seed, smoke."""
    own = dict(form="projected", rank=0, task="translation", data="", source="source", target="target")
    args = common.parse(arg, own | dict(rate=0.0, vocabulary=0, seed=0, smoke=False))
    for key, there in (("form", FORMS), ("task", TASKS)):
        if args[key] not in there:
            raise ValueError(f"{key}={args[key]!r}: choose from {', '.join(there)}")
    task = TASKS[args["task"]]
    given = task["arguments"] | {key: args[key] for key in ("vocabulary", "seed", "smoke")}
    if args["data"]:
        fields = ("source", "target") if args["task"] == "translation" else ()
        given |= {key: args[key] for key in ("data", *fields)}
    config = FILES[task["config"]].get_config(",".join(f"{key}={value}" for key, value in given.items()))
    with config.unlocked():
        config.data.packed = False
        config.model = config.model.to_dict() | task["model"] | {"attention": attention(args)}
        if not args["smoke"]:
            config.update_from_flattened_dict(task["settings"])
        config.optimizer.learning_rate = args["rate"] or config.optimizer.learning_rate
    return common.finished(config, args)


def attention(args):
    """The section ``model.attention``."""
    if args["form"] == "softmax":
        return dict(name="softmax")
    return dict(name="kv_projection", rank=args["rank"]) | (dict(folded=True) if args["form"] == "folded" else {})
