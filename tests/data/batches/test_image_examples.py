"""Images are found by the index of their record, and only they are augmented."""

import dataclasses

import numpy as np

from lwt.data.batches import image_examples

IMAGES = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3, 1)
GIVEN = image_examples.ImageExamples(IMAGES, np.array([4, 0, 2]), np.array([7, 8, -1], np.int32), None, "x")


def batch_of(examples, records):
    drawn = examples.draw(np.array(records), np.random.default_rng(0))
    assert drawn["length"].tolist() == [1] * len(records)
    return examples.batch(drawn, 1, lambda width: np.full((len(records), width), 0.25, np.float32))


def test_a_record_has_the_image_of_its_index():
    assert len(GIVEN) == 3
    batch = batch_of(GIVEN, [2, 0])
    np.testing.assert_array_equal(batch["image"], IMAGES[[2, 4]])
    assert batch["label"].tolist() == [-1, 7] and batch["weight"].tolist() == [1, 1]


def test_images_to_predict_have_no_label():
    assert batch_of(dataclasses.replace(GIVEN, labels=None), [1]).keys() == {"image", "weight"}


def test_augmentation_gets_one_number_an_image():
    seen = []

    def augment(images, numbers):
        seen.append(numbers.tolist())
        return 255 - images

    batch = batch_of(dataclasses.replace(GIVEN, augment=augment), [0, 1])
    np.testing.assert_array_equal(batch["image"], 255 - IMAGES[[4, 0]])
    assert seen == [[0.25, 0.25]]
