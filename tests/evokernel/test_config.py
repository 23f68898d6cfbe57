from __future__ import annotations

from pathlib import Path

import pytest

from evokernel.config import RunConfig, preset_names, resolve
from problems.errors import ConfigError


def test_defaults_hold_where_nothing_is_given() -> None:
    assert resolve() == RunConfig()


def test_a_preset_beats_the_defaults() -> None:
    assert resolve(preset="demo").search.generations == 2
    assert RunConfig().search.generations != 2


def test_a_file_beats_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("rng_seed = 7\n[search]\ngenerations = 5\n")
    found = resolve(preset="demo", file=file)
    assert (found.search.generations, found.rng_seed) == (5, 7)
    assert found.search.islands == resolve(preset="demo").search.islands


def test_set_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[search]\ngenerations = 5\n")
    assert resolve(file=file, settings=["search.generations=6"]).search.generations == 6


def test_a_later_set_beats_an_earlier_one() -> None:
    settings = ["search.islands=2", "search.islands=3"]
    assert resolve(settings=settings).search.islands == 3


def test_a_flag_beats_set() -> None:
    found = resolve(settings=["search.generations=6"], flags={"search.generations": 7})
    assert found.search.generations == 7


def test_a_flag_that_was_not_given_beats_nothing() -> None:
    found = resolve(settings=["search.generations=6"], flags={"search.generations": None})
    assert found.search.generations == 6


def test_values_of_set_are_toml_or_plain_text() -> None:
    found = resolve(
        settings=[
            'operators.use=["seed", "tune"]',
            "search.mode=best-of-n",
            "operators.settings.tune.configurations=6",
        ]
    )
    assert found.operators.use == ("seed", "tune")
    assert found.search.mode == "best-of-n"
    assert found.operators.settings == {"tune": {"configurations": 6}}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_resolves_and_survives_json(name: str) -> None:
    found = resolve(preset=name)
    assert RunConfig.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("setting", "parts"),
    [
        ("search.island=3", ["unknown setting 'search.island'", "did you mean 'search.islands'?"]),
        ("serach.islands=3", ["'serach.islands'", "did you mean 'search.islands'?"]),
        ("islands=3", ["'islands'", "did you mean 'search.islands'?"]),
        ("quux=3", ["'quux'", "known here are problems, search, operators"]),
        ("search.islands=0", ["search.islands = 0", "at least 1, the nearest is 1", "--set"]),
        ("search.islands=99", ["at most 64, the nearest is 64"]),
        ("search.mode=evolve", ["best-of-n, evolution", "did you mean 'evolution'?"]),
        ("search.islands=many", ["search.islands = 'many'", "valid integer"]),
        ("budget.max_minutes=0", ["more than 0"]),
        ("budget.max_minutes=inf", ["budget.max_minutes"]),
        ("search.islands", ["expected NAME=VALUE"]),
    ],
)
def test_a_wrong_setting_is_named_with_the_nearest_right_one(
    setting: str, parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(settings=[setting])
    sentence = str(caught.value)
    assert "\n" not in sentence
    for part in parts:
        assert part in sentence


def test_the_sentence_names_the_file_the_value_came_from(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[search]\nislands = -1\n")
    with pytest.raises(ConfigError, match=r"from file .*mine\.toml"):
        resolve(file=file)


def test_unreadable_files_and_unknown_presets_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve(file=tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[search\n")
    with pytest.raises(ConfigError, match="is not TOML"):
        resolve(file=broken)
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        resolve(preset="demp")


def test_the_tree_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().search.islands = 9
