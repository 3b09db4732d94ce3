"""Writes a trained text classifier or translator as WebAssembly, for pages and for Node.

    python -m lwt.export.wasm --workdir=runs/snips --out=browser
    python -m lwt.export.wasm --workdir=pretrained/multi30k-small --out=browser --activations=int8
    python -m lwt.export.wasm --workdir=runs/embbert --adapter=topic=runs/topic --adapter=mood=runs/mood --out=browser
    python -m http.server --directory=browser

Prints sizes as JSON on the last line; docs/browser.md explains the folder.
"""

from absl import flags

from lwt.export.c import export, tasks
from lwt.export.wasm import folder
from lwt.machine import command_line


def main():
    """The program: writes the folder, and prints the sizes."""
    values = flags.FLAGS
    decoding = {"beams": values.beams} if values.beams else None
    source = tasks.open_run(decoding=decoding)
    options = {"activations": values.activations, "sentences": values.sentence or ()}
    options["many"] = tasks.of_flags(source)
    command_line.report({"folder": values.out, **folder.export(source, values.out, **options)})


if __name__ == "__main__":  # flags belong to the program
    command_line.define_run(out="Folder to write.")
    flags.DEFINE_enum("activations", "fp16", export.ACTIVATIONS, "Type that states between the layers are rounded to.")
    flags.DEFINE_multi_string("sentence", None, "Text that the page starts with; twice for a record of two texts.")
    tasks.define_flags()
    flags.DEFINE_integer("beams", None, "Beams of a translator; default: the run's.", lower_bound=1, upper_bound=8)
    command_line.run(main, required=["workdir", "out"])
