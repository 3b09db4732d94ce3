"""The paragraphs of the page of the EmbBERT-Q study, which say how its figures came about."""

TUNED = """\
All models of the paper are fine-tuned by one recipe. It was chosen on validation sets with EmbBERT: no rate was
searched for the other models ([on Emotion and Snips, each model has its own](../initial_weights/README.md)), and
EmbBERT alone is pre-trained with initial weights and a rate of its own. Embedder and Embedder + conv are not
pre-trained and train for twice the epochs, as in the paper. A taught EmbBERT learns from three others, which are
trained before; all of its seeds have the same three teachers, so their spread is that of the students alone.
"""
HOW_TO_READ = """\
Figures are per cent on the test set: mean ± standard deviation over the seeds, with the paper's figures in the row
below. A mean is over all columns, of the seeds that have them all; "–" is not measured. EmbBERT-Q and the rows marked
"(8 bits)" are evaluated from a file of integers.

In GLUE's tables, F1 is weighted by the classes' sizes, as in the paper's code, and the mean is that of ten columns, as
the paper prints it. GLUE's rule averages nine tasks, with accuracy and F1 of the positive class, and both correlations.
Most test pairs of WNLI resemble a training pair with the other label: models that learn WNLI fall below one half.

Some of the paper's figures do not fit together. Its WNLI is partly one minus the accuracy. Its Table 8 repeats
accuracies where the MCC of Embedder and Embedder + conv should stand (Table 10 has it). Its BERT + NE in Table 9 is
MAMBA(2MB) in Table 5, and does not fit the MCC of BERT + NE in Table 10.
"""
MEANS = """\
Means of all columns of a suite, in per cent: ± is the standard deviation over the seeds, and a mean without it is of
one seed. "8 bits" is the change in points when the model is stored as integers, "paper" the paper's mean. The bytes are
those of the files of integers, a mean over the tasks, whose heads differ in size.
"""
STARTS = {  # what the lines of these starts are
    ("ngrams", "small_ngrams", "small_taught_ngrams"): """\
The models with n-grams have a hashed table of tokens and pairs of tokens in the head, and train without the texts that
the validation or test set holds.
""",
    ("small_taught_linear", "small_distilled_linear"): """\
A linear model of n-grams is fitted beside the trained network, on the same training texts, and becomes a table in its
head (`lwt/classify/ngrams.py`). Its regularization and its share in the logits have the lowest loss on the validation
set.
""",
    (
        "small",
        "small_pretrained",
        "small_ngrams",
        "small_taught",
        "small_taught_ngrams",
        "small_taught_linear",
        "small_labelled",
        "small_distilled",
        "small_distilled_linear",
    ): """\
Small initial tables have a standard deviation of 0.02, as in BERT, but 0.001 for EmbBERT's positions if it is
pre-trained. The other lines have the paper's 1, and EmbBERT's positions 0.05 ([a
comparison](../initial_weights/README.md)). Those that are pre-trained from small tables are fine-tuned without the
texts that the validation or test set holds. Those taught learn from the mean of three with n-grams, which start alike.
""",
    ("small_labelled", "small_distilled", "small_distilled_linear"): """\
all-MiniLM-L6-v2, a sentence encoder of 22.7 million weights, is fine-tuned on each task, for RTE from its run on MNLI.
It labels up to 30,000 variants of the task's training texts, none of them in the validation or test set
(`lwt/compress/label_set.py`), and EmbBERT trains on both for four epochs. A distilled EmbBERT also learns from the
encoder's outputs: they make up nine tenths of its loss. It trains for eight epochs (IMDb, AG News, cyberbullying:
four). Both settings were the best on nlu's validation set. All seeds share a teacher and a set.

The encoder's authors trained it on a billion pairs of texts. Labelled pairs of Quora and MultiNLI, SQuAD, and captions
of Flickr are among them: it knows more than a task's training set, and it may have read test texts of QQP, MNLI, QNLI
and STS-B.
""",
}
MEMORY = """\
Weights are counted without a head. Activations are those of the paper's formulas for one text of 256 tokens (BERT-Tiny:
512). Bytes in float32 are four for each weight and activation. The file of integers also holds the head and all scales;
the last column adds two bytes for each activation. The paper's 781 kB are those of EmbBERT-Q.
`python -m studies.embbert.memory` shows other ways to count.
"""
CODE = """\
Snips is tested on its 1,400 validation and test texts, Emotion is also trained on its validation texts, and a tenth of
the training texts is kept for validation (`splits=code`). nlu has its own splits. Training texts that a validation or
test set holds are left out (`leak_free=true`). The paper's figures are in the rows below ours.
"""
PRETRAINING = """\
The loss is that of masked words in the run's own validation texts, in nats a piece. It can be compared only between
models with the same pieces: BERT(2MB), BERT + EA and MAMBA(2MB) have 2,048, the others 8,192. The texts are English
novels instead of the paper's BookCorpus, and in most runs the training texts of the tasks, without labels; "7 more" are
the seven sets of TinyNLP.
"""
DATA = """\
The records are those of our copies, which are smaller than the paper's sets in places. "In train" counts the test texts
that the training data holds too, apart from case and white space. By rule i, the splits are those that come with the
data; by rule ii, a tenth of the training data is withheld for validation, and by rule iii another tenth for the test.
"""
