"""Arguments without a flag get one; values of flags stay where they are."""

import sys

from absl import flags

from lwt.commands import positional


def test_arguments_get_the_flag_and_values_stay(monkeypatch):
    defined = flags.FlagValues()
    flags.DEFINE_string("workdir", "", "", flag_values=defined)
    flags.DEFINE_boolean("quick", False, "", flag_values=defined)
    monkeypatch.setattr(flags, "FLAGS", defined)
    given = "--workdir runs/a rate=1,2 --config=b --quick seed=0 --noquick x --config.steps 3 y"
    monkeypatch.setattr(sys, "argv", ["program", *given.split()])
    positional.name("set")
    wanted = (
        "--workdir runs/a --set=rate=1,2 --config=b --quick --set=seed=0 --noquick --set=x --config.steps 3 --set=y"
    )
    assert sys.argv == ["program", *wanted.split()]
