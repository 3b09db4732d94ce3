"""Makes a batch of one text or image. Batches have few shapes, so that the next input compiles nothing new."""

import os
import tempfile

import jax
import PIL.Image

from lwt import errors
from lwt.data.batches import image_examples, padded
from lwt.runs import assembly

LENGTHS = (32, 64, 128, 256, 512)  # lengths of padded rows, besides the run's longest
LONGEST = 100_000  # characters of a text


def lengths(longest):
    """The lengths of rows, ascending: the `LENGTHS` below `longest`, and `longest`."""
    return (*(length for length in LENGTHS if length < longest), longest)


def of(experiment):
    """The `Inputs` of a run, by the kind of its data; raises ConfigError for a kind that the page cannot show."""
    kinds = {"pairs": Pairs, "labelled": Texts, "masked": Unlabelled, "images": Images}
    kind = experiment.config.data.kind
    if kind not in kinds:
        raise errors.ConfigError(f"{experiment.workdir}: the page cannot show a run of data.kind={kind!r}")
    return kinds[kind](experiment)


class Inputs:
    """The base class: a batch has one record, and filler rows if there are several devices.

    Attributes:
        data: of the run; see `assembly.make_data`.
        fields: labels of what the user gives: one or two texts, or an image.
    """

    fields = ("Text",)

    def __init__(self, experiment):
        self.data = assembly.make_data(experiment.config, experiment.workdir, make=False)
        self._rows = jax.device_count()

    def examples(self, count):
        """Inputs of the validation set to try, as tuples of texts; none if the data are not on this machine."""
        try:
            found = self.data.evaluation(self.data.named("validation"), limit=count).sources
        except errors.LwtError:
            return []
        return [tuple(source.split("\t", len(self.fields) - 1)) for source in found]

    def samples(self):
        """Inputs of every shape that a batch may have, as tuples of texts, the shortest first."""
        each = len(self.data.tokenizer.encode(["a"])[0]) * len(self.fields)  # tokens
        sizes = lengths(self.data.max_length)
        for start, size in zip((0, *sizes[:-1]), sizes, strict=True):
            yield tuple(" ".join(["a"] * max(1, (start + size) // 2 // each)) for _ in self.fields)

    def _check_texts(self, given):
        """Refuses what is not a text, and texts that would take long to clean and to cut into tokens."""
        if len(given) != len(self.fields) or not all(isinstance(text, str) for text in given):
            raise errors.DataError(f"The input is not text: type {' and '.join(self.fields).lower()}.")
        for text in given:
            if len(text) > LONGEST:
                raise errors.DataError(f"The text has {len(text):,} characters: shorten it to {LONGEST:,} or less.")
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise errors.DataError("The text has half of a surrogate pair, which is not a character: remove it.")

    def _check(self, tokens, most):
        """Refuses an empty text, and one that the model cannot read to its end."""
        if not tokens:
            raise errors.DataError("The text is empty: type some words.")
        if tokens > most:
            raise errors.DataError(f"The text has {tokens} tokens, but this model reads at most {most}: shorten it.")

    def _padded(self, examples, lengths):
        return list(padded.PaddedBatches(examples, rows=self._rows, lengths=lengths))


class Pairs(Inputs):
    """Sources of a sequence-to-sequence run."""

    def batches(self, given, target=None):
        """The batch of one source, in a list; raises DataError for a text that is empty or too long.

        Args:
            target: a text for the decoder to read; None to decode.
        """
        self._check_texts(given)
        examples = self.data.from_texts(list(given), None if target is None else [target]).examples
        self._check(int(examples.source.lengths[0]), self.data.max_length - 1)
        return self._padded(examples, lengths(self.data.max_length))


class Texts(Inputs):
    """Texts or pairs of texts of a run with labels."""

    def __init__(self, experiment):
        super().__init__(experiment)
        self.fields = tuple(field.capitalize() for field in self.data.fields)

    def batches(self, given):
        """The batch of one text or pair, in a list; raises DataError if a text is empty or the record is too long."""
        self._check_texts(given)
        examples = self._examples([" ".join(side.split()) for side in given])
        counts = [int(side.lengths[0]) for side in examples.sides]
        self._check(min(counts) and sum(counts), self.data.max_length - 1 - len(counts))
        return self._padded(examples, lengths(self.data.max_length))

    def _examples(self, given):
        return self.data.from_texts(["\t".join(given)]).examples


class Unlabelled(Texts):
    """Texts for a pre-training run, which gives no answers but can be looked into."""

    def __init__(self, experiment):
        Inputs.__init__(self, experiment)

    def _examples(self, given):
        return self.data.alone(given).examples

    def examples(self, count):
        """No examples: a record is a stretch of running text."""
        del count
        return []


class Images(Inputs):
    """Images of a run that classifies images."""

    fields = ("Image",)

    def batches(self, given):
        """A list with the one batch of an image file; raises DataError if it is missing or the run cannot read it."""
        if len(given) != 1 or not given[0] or not isinstance(given[0], str):
            raise errors.DataError("There is no image: drop one here or choose a file.")
        return self._padded(self.data.from_texts(list(given)).examples, image_examples.LENGTHS)

    def samples(self):
        """The path of one small grey image."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "grey.png")
            PIL.Image.new("L", (8, 8), 128).save(path)
            yield (path,)

    def examples(self, count):
        """No examples: many image data sets do not store their records as files."""
        del count
        return []
