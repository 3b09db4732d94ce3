"""What a user gives, one text or one image, as a batch of one of few shapes: the next one compiles nothing new."""

import jax

from lwt import errors
from lwt.data import text
from lwt.data.batches import bucketed, packed, tokenized
from lwt.data.kinds import images, labelled
from lwt.runs import assembly

LENGTHS = (32, 64, 128, 256, 512)  # tokens that a row is padded to, and the longest that the run has


def lengths(longest):
    """The lengths of rows, ascending: `LENGTHS` below that of the longest row, and that one."""
    return (*(length for length in LENGTHS if length < longest), longest)


def of(opened):
    """The inputs of a run, by the kind of its data.

    Args:
        opened: an `experiment.Experiment`.
    """
    kinds = {"pairs": Pairs, "labelled": Texts, "masked": Unlabelled, "images": Images}
    return kinds[opened.config.data.kind](opened)


class Inputs:
    """The base of the kinds: a batch has one record, and filler rows where there are more devices than one.

    Attributes:
        data: of the run; see `assembly.make_data`.
        fields: what the user is asked for, one or two texts, or an image.
    """

    fields = ("Text",)

    def __init__(self, opened):
        self.data = assembly.make_data(opened.config, opened.workdir, make=False)
        self._rows = jax.device_count()

    def examples(self, count):
        """Some inputs to try, of the run's validation set, as tuples of texts; none where its data are not here."""
        try:
            found = self.data.evaluation(self.data.named("validation"), limit=count).sources
        except errors.LwtError:
            return []
        return [tuple(source.split("\t", len(self.fields) - 1)) for source in found]

    def _check(self, tokens, most):
        """Refuses what the model would not read, or not read to its end."""
        if not tokens:
            raise errors.DataError("There is no text yet: type some words.")
        if tokens > most:
            raise errors.DataError(f"The text has {tokens} tokens, and this model reads up to {most}: shorten it.")


class Pairs(Inputs):
    """Sources of a sequence-to-sequence run."""

    def batches(self, given, target=None):
        """The batch of one source, in a list.

        Args:
            given: a tuple of one text.
            target: what the decoder reads, a text; None to decode.

        Raises:
            lwt.errors.DataError: an empty text, or one that is too long.
        """
        longest, source = self.data.max_length, self.data.from_texts(list(given)).source_ids
        self._check(int(source.lengths[0]), longest - 1)
        read = None if target is None else self.data.from_texts([target]).source_ids
        needed = max(int(side.lengths[0]) + 1 for side in (source, read) if side is not None)
        length = next((n for n in lengths(longest) if n >= needed), longest)
        padded = dict(batch=self._rows, multiple=length, max_length=length)
        return list(packed.padded_batches(source, read, **padded))


class Texts(Inputs):
    """Texts, or pairs of texts, of a run with labels."""

    def __init__(self, opened):
        super().__init__(opened)
        self.fields = tuple(field.capitalize() for field in self.data.fields)

    def batches(self, given):
        """The batch of one text or pair, in a list.

        Raises:
            lwt.errors.DataError: an empty text, or one that is too long.
        """
        examples = self._examples([" ".join(side.split()) for side in given])
        counts = [int(side.lengths[0]) for side in examples.sides]
        self._check(min(counts) and sum(counts), self.data.max_length - 1 - len(counts))
        return list(bucketed.Padded(examples, rows=self._rows, lengths=lengths(self.data.max_length)))

    def _examples(self, given):
        return self.data.from_texts(["\t".join(given)]).examples


class Unlabelled(Texts):
    """Texts for a run of pre-training, which can be looked into, but gives no answers."""

    def __init__(self, opened):
        Inputs.__init__(self, opened)
        self._cleaner = text.Cleaner(**opened.config.data.clean)

    def _examples(self, given):
        ids = self.data.tokenizer.encode([self._cleaner.clean(side) for side in given])
        return labelled.Examples((tokenized.Ragged.of(ids),), None, self.data.max_length)

    def examples(self, count):
        """None: a record is a stretch of running text."""
        del count
        return []


class Images(Inputs):
    """Images of a run that classifies them."""

    fields = ("Image",)

    def batches(self, given):
        """The batch of one image, in a list.

        Args:
            given: a tuple of the path of its file.

        Raises:
            lwt.errors.DataError: no image, or one that is not of the training's shape.
        """
        if not given[0]:
            raise errors.DataError("There is no image yet: drop one here, or choose a file.")
        examples = self.data.from_texts(list(given)).examples
        return list(bucketed.Padded(examples, rows=self._rows, lengths=images.LENGTHS))

    def examples(self, count):
        """None: the records of many sets of images are no files."""
        del count
        return []
