"""What an installed wheel holds, and that it works away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the unpacked wheel, as site-packages would."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("evokernel_search-*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def test_a_wheel_holds_the_five_packages_with_types_and_data(installed: Path) -> None:
    for package in ("problems", "archives", "operators", "evaluator", "evokernel"):
        assert (installed / package / "py.typed").exists()
    assert len(list((installed / "problems" / "level1").glob("*.toml"))) >= 9
    assert (installed / "operators" / "llm" / "templates" / "system.md").exists()
    assert list((installed / "evokernel" / "bundled").glob("*h200*.json"))
    presets = {path.stem for path in (installed / "evokernel" / "configs").glob("*.toml")}
    assert {"default", "demo", "best-of-n"} <= presets
    assert not (installed / "tests").exists()


def test_a_wheel_works_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from evokernel.cli.main import main\n"
        "sys.argv = ['evokernel', *sys.argv[2:]]\n"
        "main()"
    )
    arguments = [str(installed), "run", "--level", "1", "--problems", "19", "--dry-run"]
    run = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments, "--preset", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "ReLU" in run.stdout
