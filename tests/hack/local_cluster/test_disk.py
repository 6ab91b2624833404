from pathlib import Path

import pytest
from local_cluster import disk
from local_cluster.errors import NotEnoughDisk


def test_enough_room_is_told_with_both_figures(tmp_path: Path) -> None:
    said = disk.require(tmp_path / "not" / "yet" / "there", 0.001, "Building")
    assert said.startswith("Building needs up to 0.0 GiB of disk; ")


def test_too_little_room_says_how_much_and_where(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughDisk, match=rf"Building needs 1000000\.0 GiB under {tmp_path}"):
        disk.require(tmp_path, 1e6, "Building")
