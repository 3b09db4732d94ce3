"""The exported folder is a library for C and C++, of which one program can contain two, and for three build systems."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from lwt import errors
from lwt.export.c import export, layout, toolchain

BUILDER = "/usr/share/arduino-builder"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
TWO = r"""
#include <stdio.h>

#include "intents.h"
#include "topics.h"

static intents_arena first;
static topics_arena second;
static intents_answer answer;

static int run(const char *text)
{
    topics_answer other;
    int status = intents_classify(&first, text, NULL, &answer);
    topics_classify(&second, text, NULL, &other);
    printf("%d %.9g %.9g ", status, answer.logits[0], other.logits[0]);
    printf("%d %d %d\n", answer.tokens, answer.pieces, answer.unknown);
    return status;
}

static int refused(void)
{
    float shares[INTENTS_CLASSES];
    uint16_t units[INTENTS_CLASSES];
    return intents_classify(NULL, "", NULL, &answer) == INTENTS_NULL
        && intents_classify(&first, NULL, NULL, &answer) == INTENTS_NULL
        && intents_classify(&first, "", NULL, NULL) == INTENTS_NULL
        && intents_probabilities(NULL, shares, INTENTS_CLASSES) == INTENTS_NULL
        && intents_probabilities(&answer, NULL, INTENTS_CLASSES) == INTENTS_NULL
        && intents_probabilities(&answer, shares, INTENTS_CLASSES - 1) == INTENTS_SMALL
        && intents_probabilities_q15(&answer, units, INTENTS_CLASSES - 1) == INTENTS_SMALL
        && intents_probabilities_q15(&answer, NULL, INTENTS_CLASSES) == INTENTS_NULL;
}

int main(void)
{
    float shares[INTENTS_CLASSES];
    uint16_t units[INTENTS_CLASSES];
    int wrong = 0, sum = 0;
    run("a cold old one");
    run("\xe6\x9d\xb1 old");
    run("old cold old cold old cold old cold old cold old cold old cold old cold old cold old cold old cold old");
    for (int i = 0; i < INTENTS_CLASSES; i++)
        answer.logits[i] = (float)i * i - 3.5f; /* the last is the highest */
    answer.best = INTENTS_CLASSES - 1;
    intents_probabilities(&answer, shares, INTENTS_CLASSES);
    intents_probabilities_q15(&answer, units, INTENTS_CLASSES);
    for (int i = 0; i < INTENTS_CLASSES; i++) {
        float difference = shares[i] - (float)units[i] / 32768;
        wrong += !(difference < 2.f / 32768 && difference > -2.f / 32768);
        sum += units[i];
    }
    printf("%d %d %d %s %s %s %d\n", refused(), wrong, sum, intents_version(), intents_describe()->states,
           topics_describe()->states, intents_describe()->fingerprint == topics_describe()->fingerprint);
    return 0;
}
"""
PROPERTIES = {  # of a library.properties, as Arduino's library specification has them
    "name": r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,62}",
    "version": r"\d+\.\d+\.\d+",
    "category": "Data Processing",
    "architectures": r"\*",
    **dict.fromkeys(("author", "maintainer", "sentence", "paragraph"), ".+"),
    "url": "https://.+",
    "includes": r"intents\.h",
}
ARDUINO = {  # a platform of Arduino, with the part of its core that the sketch needs
    "boards.txt": "m4.name=Cortex-M4\nm4.build.core=arduino\nm4.build.board=M4\n",
    "platform.txt": """
name=Cortex-M
version=1
cpu=-mcpu=cortex-m4 -mthumb -Os
recipe.c.o.pattern=arm-none-eabi-gcc -std=gnu11 {cpu} -Werror -c {includes} "{source_file}" -o "{object_file}"
recipe.cpp.o.pattern=arm-none-eabi-g++ -std=gnu++11 {cpu} -Werror -c {includes} "{source_file}" -o "{object_file}"
recipe.preproc.macros=arm-none-eabi-g++ {cpu} -w -x c++ -E -CC {includes} "{source_file}" -o "{preprocessed_file_path}"
recipe.ar.pattern=arm-none-eabi-ar rcs "{archive_file_path}" "{object_file}"
elf="{build.path}/elf"
recipe.c.combine.pattern=arm-none-eabi-gcc {cpu} -specs=nosys.specs {object_files} "{archive_file_path}" -o {elf}
recipe.size.pattern=arm-none-eabi-size -A {elf}
recipe.size.regex=^\\.text\\s+([0-9]+).*
""",
    "cores/arduino/Arduino.h": """
#include <stddef.h>
struct Port {
    void begin(long) {}
    size_t readBytesUntil(char, char *, size_t) { return 0; }
    void println(const char *) {}
};
extern Port Serial;
void setup();
void loop();
""",
    "cores/arduino/main.cpp": """
#include "Arduino.h"
Port Serial;
int main() { setup(); for (;;) loop(); }
""",
}
ZEPHYR = """
cmake_minimum_required(VERSION 3.13)
project(app C)
set(CONFIG_INTENTS y)
macro(zephyr_library_named name)
  add_library(${name} STATIC)
  set(current ${name})
endmacro()
macro(zephyr_library_sources)
  target_sources(${current} PRIVATE ${ARGN})
endmacro()
macro(zephyr_library_compile_options)
  target_compile_options(${current} PRIVATE ${ARGN})
endmacro()
macro(zephyr_include_directories)
  include_directories(${ARGN})
endmacro()
add_subdirectory(intents/zephyr module)
"""


@pytest.fixture(scope="module")
def models(variant, tmp_path_factory):
    """A folder with two exported models, intents and topics."""
    folder = tmp_path_factory.mktemp("models")
    for name, seed, activations in (("intents", 0, "fp16"), ("topics", 1, "int8")):
        (folder / name).mkdir()
        experiment = variant("embbert", layers=1, kernel_size=4, seed=seed)
        export.write(experiment, folder / name, activations=activations, prefix=name)
    return folder


def run(*command, cwd):
    """The output of a command, which has to succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_two_models_in_one_program(models):
    outputs = []
    for name in ("intents", "topics"):
        (models / name / "objects").mkdir()
        sources = [str(path) for path in (models / name / "src").glob("*.c")]
        flags = ("-std=c99", "-O0", "-ffp-contract=off", "-fno-math-errno")
        run("gcc", "-c", *flags, *STRICT, *sources, cwd=models / name / "objects")
    objects = [str(path) for path in models.glob("*/objects/*.o")]
    assert not any(
        line.split()[-1].startswith(("lwt_", "LWT_"))
        for line in run("nm", *objects, cwd=models).splitlines()
        if line.split()
    )
    for compiler, standard, file in (("gcc", "c99", "two.c"), ("g++", "c++11", "two.cc")):
        (models / file).write_text(TWO)
        command = (compiler, f"-std={standard}", "-O0", "-Iintents/src", "-Itopics/src", file, *objects, "-o", "two")
        run(*command, *STRICT, cwd=models)
        outputs.append(run(models / "two", cwd=models))
    assert outputs[0] == outputs[1]
    plain, unknown, cut, last = (line.split() for line in outputs[0].splitlines())
    assert (plain[0], unknown[0], cut[0]) == ("0", "0", "1")
    assert plain[1] != plain[2]  # two models
    assert unknown[5] == "1" and plain[5] == "0"
    assert cut[3:5] == ["24", "22"] and int(plain[3]) == int(plain[4]) + 2 < 24
    assert last[:3] == ["1", "0", "32768"] and last[4:] == ["fp16", "int8", "0"]
    for name, wanted in (("intents", plain[1]), ("topics", plain[2])):
        toolchain.make(models / name, "classify", CC="gcc", CFLAGS="-O0")
        answer = subprocess.run([models / name / "classify"], input="a cold old one\n", capture_output=True, text=True)
        assert answer.stdout.split("\t")[1] == wanted


SHARES = r"""
#include <stdio.h>

#include "lwt.h"

int main(void)
{
    static lwt_answer answer;
    uint16_t units[LWT_CLASSES];
    int most = 0, sum = 0;
    answer.classes = LWT_CLASSES, answer.best = 7, answer.logits[7] = 0.01f;
    lwt_probabilities_q15(&answer, units, LWT_CLASSES);
    for (int i = 0; i < LWT_CLASSES; sum += units[i++])
        most = units[i] > most ? units[i] : most;
    return printf("%d %d %d\n", sum, most, units[7]) < 0;
}
"""


def test_the_probabilities_of_many_classes_add_up(variant, tmp_path):
    experiment = variant("embbert", layers=1, kernel_size=4, outputs=400)
    experiment.labels = tuple(map(str, range(400)))
    export.write(experiment, tmp_path, activations="fp16")
    (tmp_path / "main.c").write_text(SHARES)
    sources = [str(path) for path in (tmp_path / "src").glob("*.c")]
    run(*toolchain.host().split(), "-O1", "-fno-math-errno", "-Isrc", "main.c", *sources, "-o", "shares", cwd=tmp_path)
    total, most, best = map(int, run(tmp_path / "shares", cwd=tmp_path).split())
    assert total == 32768 and best == most
    assert abs(best - 32768 * np.exp(0.01) / (np.exp(0.01) + 399)) < 2


def test_examples_fit_the_record_and_the_answer():
    fields = layout._examples(many=None, classes=0, pairs=True)
    assert fields["PRINT"] == 'printf("%g\\n", answer.logits[0]);' and fields["ANSWER"] == "answer.logits[0]"
    assert fields["SECOND"] == "second" and "strchr" in fields["CUT"]
    fields = layout._examples(many=None, classes=2, pairs=False)
    assert fields["PRINT"] == "puts(lwt_labels[answer.best]);" and fields["SECOND_TEXT"] == "NULL" == fields["SECOND"]
    fields = layout._examples(many=True, classes=0, pairs=False)
    assert fields["ANSWER"] == "lwt_label(&task, answer.best)"


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_cmake(models):
    run("cmake", "-S", "intents", "-B", "built", cwd=models)
    run("cmake", "--build", "built", cwd=models)
    assert "100% tests passed" in run("ctest", "--test-dir", "built", cwd=models)


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")
def test_a_zephyr_module(models):
    """With the functions of Zephyr that the module calls in a few lines of CMake, since no package has Zephyr."""
    (models / "CMakeLists.txt").write_text(ZEPHYR)
    run("cmake", "-S", ".", "-B", "zephyr", cwd=models)
    run("cmake", "--build", "zephyr", cwd=models)
    assert (models / "zephyr/module/libintents.a").exists()
    assert "config INTENTS" in (models / "intents/zephyr/Kconfig").read_text()


@pytest.mark.skipif(not shutil.which("arduino-builder"), reason="needs arduino-builder")
@pytest.mark.skipif(not shutil.which("arm-none-eabi-g++"), reason="needs gcc-arm-none-eabi")
def test_an_arduino_library(models):
    """Arduino's builder finds the library for the sketch, compiles and links both, with a platform of a few lines."""
    properties = dict(line.split("=", 1) for line in (models / "intents/library.properties").read_text().splitlines())
    assert properties.keys() == PROPERTIES.keys()
    assert all(re.fullmatch(wanted, properties[key]) for key, wanted in PROPERTIES.items())
    for name, text in ARDUINO.items():
        path = models / "hardware/test/arm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (models / "arduino").mkdir()
    hardware, tools = (("-hardware", BUILDER, "-hardware", "hardware"), ("-tools", BUILDER, "-libraries", "."))
    sketch = "intents/examples/classify/classify.ino"
    options = ("-compile", "-fqbn", "test:arm:m4", "-build-path", models / "arduino")
    run("arduino-builder", *options, *hardware, *tools, sketch, cwd=models)
    assert (models / "arduino/libraries/intents/engine.c.o").exists()
    assert " T intents_classify" in run("arm-none-eabi-nm", "arduino/elf", cwd=models)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("embbert", {}), ("bert", {}), ("embedder", dict(kernel_size=5, pool="rms")), ("mamba", dict(expansion=2))],
)
def test_the_arena_is_as_large_as_the_memory(kind, fields, variant, tmp_path):
    for activations in export.ACTIVATIONS:
        (tmp_path / activations).mkdir()
        export.write(variant(kind, **fields), tmp_path / activations, activations=activations)
        source = tmp_path / activations / "src/lwt.c"
        source.write_text(source.read_text().replace("sizeof(memory) <=", "sizeof(memory) =="))
        run("gcc", "-std=c99", "-fsyntax-only", source, cwd=tmp_path)


def test_constants_in_a_section_of_the_program(models):
    command = (
        "gcc",
        "-std=c99",
        "-c",
        '-DINTENTS_IN(part)=__attribute__((section(".external")))',
        "intents/src/tables.c",
    )
    run(*command, "-o", "tables.o", cwd=models)
    assert ".external" in run("objdump", "-h", "tables.o", cwd=models)


@pytest.mark.parametrize(
    ("prefix", "message"),
    [("", "must be a lower-case"), ("1a", "must be"), ("engine", "name of a file"), ("stdint", "a system header")],
)
def test_wrong_prefixes_are_refused(prefix, message, variant, tmp_path):
    with pytest.raises(errors.ConfigError, match=message):
        export.export(variant("embbert", layers=1, kernel_size=4), tmp_path / "out", prefix=prefix)
    assert not (tmp_path / "out").exists()


def test_names_in_c():
    text = 'lwt_a LWT_B(lwt_c) "lwt.h" .lwt_weights lwt/export/c my_lwt_x \\154wt'
    renamed = 'x_a X_B(x_c) "x.h" .x_weights lwt/export/c my_lwt_x \\154wt'
    assert layout.renamed(text, "x") == renamed
