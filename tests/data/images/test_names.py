"""Names of files: which are images, and of which class."""

import pytest

from lwt.data.images import names


@pytest.mark.parametrize(
    "name, root, label",
    [
        ("ant/1.png", 0, "ant"),
        ("ant/deep/1.png", 0, "ant"),
        ("root/ant/deep/1.png", 1, "ant"),
        ("00017_frog.jpg", 0, "frog"),
        ("00017.jpg", 0, ""),
        ("root/README", 1, ""),
    ],
)
def test_the_class_of_a_file(name, root, label):
    assert names.class_of(name, root=root) == label


def test_what_is_an_image():
    assert names.is_image("a/B.JPEG") and names.is_image("c.tif")
    assert not any(map(names.is_image, ("a.txt", ".a.png", "__MACOSX/a.png", "a/.thumbnails/b.png")))
    assert names.common_folders(["x/ant/1.png", "x/bee/2.png"]) == 1
    assert names.common_folders(["ant/1.png", "ant/2.png"]) == names.common_folders([]) == 0
