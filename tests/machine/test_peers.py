"""A process that ends without a word is named to all others, and one that says goodbye to none."""

import multiprocessing
import queue

import pytest

from lwt.machine import peers


@pytest.fixture
def three():
    """Three processes' connections, and a queue of ``(index, who is gone)``."""
    found = queue.Queue()
    made = [peers.Peers(i, 3, gone=lambda who, i=i: found.put((i, who))) for i in range(3)]
    port = made[0].listen()
    for one in made[1:]:
        one.join("localhost", port)
    while len(made[0]._links) < 2:
        pass
    return made, found


def die(one):
    """Closes the connections as the system does."""
    for link in one._links.values():
        link.shutdown(2)


@pytest.mark.parametrize("who", [0, 1, 2])
def test_the_others_learn_who_is_gone(three, who):
    made, found = three
    made[who]._left = True  # it is dead: it says nothing itself
    die(made[who])
    assert sorted(found.get(timeout=10) for _ in range(2)) == [(i, who) for i in range(3) if i != who]


def test_those_that_finish_are_not_missed(three):
    made, found = three
    for one in made:
        one.leave()
    for one in made:
        die(one)
    with pytest.raises(queue.Empty):
        found.get(timeout=0.3)


def end_without_a_word(port):
    peers.Peers(1, 2, gone=print).join("localhost", port)


def test_a_process_that_ends_closes_its_connection():
    found = queue.Queue()
    port = peers.Peers(0, 2, gone=found.put).listen()
    child = multiprocessing.get_context("spawn").Process(target=end_without_a_word, args=(port,))
    child.start()
    assert found.get(timeout=60) == 1
    child.join()
