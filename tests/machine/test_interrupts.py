"""Ctrl-C and SIGTERM: the first saves and stops, or ends with one line; the second stops at once."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lwt.machine import interrupts

PROGRAM = """
import hashlib, sys, time
from lwt import errors
from lwt.machine import command_line, interrupts

def wait(seconds=60.0):
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)

def training(deaf):
    with interrupts.deferred() as asked:
        print("ready", flush=True)
        while not asked() or deaf:
            time.sleep(0.01)
        print(f"{asked()}: saved", flush=True)
    interrupts.stop()

def compiled():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # does not return to the interpreter

class Slow:
    def __del__(self):
        wait(1.0)

def destructor():
    Slow()  # Python ignores the errors of a __del__
    wait()

def failing():
    try:
        raise errors.DataError("wrong")
    finally:
        wait()

with command_line.guarded():
    kind = sys.argv[1]
    destructor() if kind == "destructor" else failing() if kind == "failing" else None
    training(kind == "deaf") if kind in ("training", "deaf") else compiled() if kind == "compiled" else wait()
    print("went on")
"""


def start(kind):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_saves_and_stops(number):
    process = start("training")
    process.send_signal(number)
    said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, f"{number.name}: saved\n") and "Traceback" not in complaints


@pytest.mark.parametrize("kind", ["waiting", "destructor", "failing"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_outside_training_the_first_signal_ends_the_program_with_one_line(kind, number):
    process = start(kind)
    process.send_signal(number)
    said, complaints = process.communicate(timeout=60)
    assert process.returncode == 128 + number and said in ("", "ready\n")
    assert f"error: stopped by {number.name}" in complaints and "Traceback" not in complaints


@pytest.mark.parametrize("kind", ["deaf", "compiled"])
def test_the_second_signal_stops_at_once(kind):
    process = start(kind)
    time.sleep(0.5)  # until it is inside the compiled code
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "SIGINT: stopping; send it again to stop at once\n"
    time.sleep(2 * interrupts.TOGETHER)
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert process.returncode == 130 and complaints.startswith("stopped at once")


def test_in_a_library_the_handlers_last_as_long_as_the_loop():
    before = [signal.getsignal(number) for number in interrupts.SIGNALS]
    with interrupts.deferred() as asked:
        assert asked() == ""
        os.kill(os.getpid(), signal.SIGINT)
        assert asked() == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert [signal.getsignal(number) for number in interrupts.SIGNALS] == before
    interrupts.stop()  # returns
    with interrupts.deferred() as asked:
        assert asked() == ""


def test_another_thread_catches_nothing():
    found = []

    def loop():
        with interrupts.deferred() as asked:
            found.append(asked())

    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
    assert found == [""]


@pytest.mark.parametrize("command", [["train.py"], ["-m", "lwt.compress.factorise"]])
def test_a_program_that_is_still_importing_ends_without_a_traceback(command):
    command = [sys.executable, "-X", "importtime", *command]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "absl" in line:  # past the first lines of the program
            break
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=60)[1]
    assert process.returncode in (-signal.SIGINT, 130)


def test_an_error_that_follows_a_stop_counts_as_the_stop():
    stopped = interrupts.Stopped("SIGINT")
    try:
        try:
            raise stopped
        finally:
            raise ValueError("a library that was cleaning up")
    except ValueError as error:
        assert interrupts.cause(error) is stopped
    assert interrupts.cause(stopped) is stopped
    assert interrupts.cause(ValueError("of the program")) is None
