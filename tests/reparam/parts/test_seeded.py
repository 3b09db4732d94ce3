"""A seed gives the same numbers for ever."""

from lwt.reparam.parts import seeded


def test_numbers_follow_from_seed_and_names():
    assert seeded.generator(0, "a").randint(0, 1000, 4).tolist() == [309, 739, 130, 837]
    assert seeded.generator(0, "a").rand() != seeded.generator(1, "a").rand() != seeded.generator(1, "a", 2).rand()
