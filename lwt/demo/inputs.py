"""Makes a batch of one text or image. Batches have few shapes, so that the next input compiles nothing new."""

import jax

from lwt import errors
from lwt.data import text
from lwt.data.batches import image_examples, labelled_examples, padded, tokenized
from lwt.runs import assembly

LENGTHS = (32, 64, 128, 256, 512)  # lengths of padded rows, besides the run's longest


def lengths(longest):
    """The lengths of rows, ascending: the `LENGTHS` below `longest`, and `longest`."""
    return (*(length for length in LENGTHS if length < longest), longest)


def of(experiment):
    """The `Inputs` of a run, by the kind of its data."""
    kinds = {"pairs": Pairs, "labelled": Texts, "masked": Unlabelled, "images": Images}
    return kinds[experiment.config.data.kind](experiment)


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

    def _check(self, tokens, most):
        """Refuses an empty text, and one that the model cannot read to its end."""
        if not tokens:
            raise errors.DataError("The text is empty: type some words.")
        if tokens > most:
            raise errors.DataError(f"The text has {tokens} tokens, but this model reads at most {most}: shorten it.")


class Pairs(Inputs):
    """Sources of a sequence-to-sequence run."""

    def batches(self, given, target=None):
        """The batch of one source, in a list.

        Args:
            given: a tuple of one text.
            target: a text for the decoder to read; None to decode.

        Raises:
            lwt.errors.DataError: the text is empty or too long.
        """
        examples = self.data.from_texts(list(given), None if target is None else [target]).examples
        self._check(int(examples.source.lengths[0]), self.data.max_length - 1)
        return list(padded.PaddedBatches(examples, rows=self._rows, lengths=lengths(self.data.max_length)))


class Texts(Inputs):
    """Texts or pairs of texts of a run with labels."""

    def __init__(self, experiment):
        super().__init__(experiment)
        self.fields = tuple(field.capitalize() for field in self.data.fields)

    def batches(self, given):
        """The batch of one text or pair, in a list.

        Raises:
            lwt.errors.DataError: a text is empty, or the record is too long.
        """
        examples = self._examples([" ".join(side.split()) for side in given])
        counts = [int(side.lengths[0]) for side in examples.sides]
        self._check(min(counts) and sum(counts), self.data.max_length - 1 - len(counts))
        return list(padded.PaddedBatches(examples, rows=self._rows, lengths=lengths(self.data.max_length)))

    def _examples(self, given):
        return self.data.from_texts(["\t".join(given)]).examples


class Unlabelled(Texts):
    """Texts for a pre-training run, which gives no answers but can be looked into."""

    def __init__(self, experiment):
        Inputs.__init__(self, experiment)
        self._cleaner = text.Cleaner(**experiment.config.data.clean)

    def _examples(self, given):
        ids = self.data.tokenizer.encode([self._cleaner.clean(side) for side in given])
        return labelled_examples.LabelledExamples((tokenized.RaggedArray.of(ids),), None, self.data.max_length)

    def examples(self, count):
        """No examples: a record is a stretch of running text."""
        del count
        return []


class Images(Inputs):
    """Images of a run that classifies images."""

    fields = ("Image",)

    def batches(self, given):
        """The batch of one image, in a list.

        Args:
            given: a tuple of the path of its file.

        Raises:
            lwt.errors.DataError: there is no image, or its shape does not match the training's.
        """
        if not given[0]:
            raise errors.DataError("There is no image: drop one here or choose a file.")
        examples = self.data.from_texts(list(given)).examples
        return list(padded.PaddedBatches(examples, rows=self._rows, lengths=image_examples.LENGTHS))

    def examples(self, count):
        """No examples: many image data sets do not store their records as files."""
        del count
        return []
