"""How texts are cleaned before they are cut into tokens: by the steps of ``config.data.clean``, or not at all."""

import dataclasses
import re

from lwt import errors
from lwt.data import cleaner


@dataclasses.dataclass(frozen=True)
class Cleaner(cleaner.Cleaner):
    """The steps that ``config.data.clean`` switches on; its keys are the arguments.

    Raises:
        lwt.errors.ConfigError: the normal form is unknown, or `characters` is not a regular expression.
    """

    def __post_init__(self):
        if self.unicode not in cleaner.FORMS:
            raise errors.ConfigError(
                f"data.clean.unicode {self.unicode!r}; {errors.suggest(self.unicode, cleaner.FORMS)}"
            )
        try:
            cleaner.keep(self.characters)
        except re.error as error:
            raise errors.ConfigError(
                f"data.clean.characters {self.characters!r} is not a regular expression: {error}"
            ) from error


@dataclasses.dataclass(frozen=True)
class AsIs:
    """Leaves every text as it is: the cleaner of a tokenizer that normalises texts itself."""

    @classmethod
    def of(cls, section, *, where):
        """One for ``config.data.clean``, in which every step must be off; `where` is the tokenizer's file.

        Raises:
            lwt.errors.ConfigError: a step is on; the message names it.
        """
        for key, value in dict(section).items():
            if value:
                off = False if isinstance(value, bool) else ""
                raise errors.ConfigError(
                    f"data.clean.{key}={value!r} must be {off!r}: {where} says how texts are normalised"
                )
        return cls()

    def clean(self, text):
        """The text."""
        return text
