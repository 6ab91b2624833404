from pathlib import Path

import pytest
from local_cluster.errors import ClusterError
from local_cluster.layout import Layout


def test_two_folders_have_two_ids(tmp_path: Path) -> None:
    one, other = Layout.of(tmp_path / "a"), Layout.of(tmp_path / "b")
    assert one.id != other.id
    assert one.cgroup != other.cgroup


def test_one_folder_has_one_id_however_it_is_written(tmp_path: Path) -> None:
    assert Layout.of(tmp_path / "x" / ".." / "a").id == Layout.of(tmp_path / "a").id


def test_the_interfaces_name_has_at_most_15_characters(tmp_path: Path) -> None:
    assert len(Layout.of(tmp_path / ("long" * 40)).host_link) <= 15


def test_a_folder_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(ClusterError, match="name another folder"):
        Layout.of(tmp_path).claim()
    assert [entry.name for entry in tmp_path.iterdir()] == ["letters.txt"]


def test_a_claimed_folder_is_claimed_again(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path / "state")
    layout.claim()
    layout.claim()
    layout.require_claimed()


def test_keys_lie_in_a_private_folder(tmp_path: Path) -> None:
    layout = Layout.of(tmp_path / "state")
    layout.claim()
    assert layout.pki.stat().st_mode & 0o077 == 0
