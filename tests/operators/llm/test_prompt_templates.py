"""Templates are found, hold sections, and show programs that work."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest
import torch

from archives.candidate import Language, detect_language
from archives.configuration import read_configuration, read_space, with_configuration
from operators.llm.focus import FOCUSES
from operators.llm.sections import BYTES_PER_TOKEN, parse, render, tokens_in
from operators.llm.template import system_text, template

ROOT = Path(__file__).parents[3]
TEMPLATES = sorted(
    path.name.removesuffix(".md")
    for path in (files("operators.llm") / "templates").iterdir()
    if path.name.endswith(".md")
)


def example(name: str, number: int = 0) -> str:
    """The program that a template shows."""
    shown = [s.data for s in template(name) if s.language == "python" and s.data is not None]
    return shown[number]


def test_there_is_a_template_for_each_focus_and_the_system() -> None:
    assert {"system", "rules", "configuration"} <= set(TEMPLATES)
    assert {f"focus_{focus}" for focus in FOCUSES} <= set(TEMPLATES)
    assert "Prompt version" in system_text()


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "system"])
def test_a_template_is_sections(name: str) -> None:
    text = (ROOT / "operators" / "llm" / "templates" / f"{name}.md").read_text()
    sections = template(name)
    assert parse(render(sections)) == sections
    assert render(sections) == text


@pytest.mark.parametrize(
    ("name", "number", "language"),
    [
        ("candidate_cpu", 0, Language.CPP),
        ("candidate_cuda", 0, Language.TRITON),
        ("candidate_cuda", 1, Language.CUDA),
    ],
)
def test_an_example_declares_what_it_asks_for(name: str, number: int, language: Language) -> None:
    source = example(name, number)
    ast.parse(source)
    assert detect_language(source) is language
    space, point = read_space(source), read_configuration(source)
    assert space
    assert set(space) == set(point)
    assert all(point[key] in choices for key, choices in space.items())


@pytest.mark.parametrize("flat", [False, True])
def test_the_example_for_a_cpu_is_right(
    load_program: Callable[[str], ModuleType], flat: bool
) -> None:
    source = example("candidate_cpu")
    source = with_configuration(source, {**read_configuration(source), "FLAT": flat})
    x = torch.randn(37, 1001)
    x[0, 0] = torch.nan
    out = load_program(source).ModelNew()(x)
    torch.testing.assert_close(out, torch.relu(x), equal_nan=True, rtol=0, atol=0)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_the_example_in_triton_is_right(tmp_path: Path) -> None:
    check = (
        "import torch\nx = torch.randn(3, 1001)\nx[0, 0] = torch.nan\n"
        "torch.testing.assert_close(ModelNew()(x), torch.relu(x), equal_nan=True, rtol=0, atol=0)\n"
    )
    path = tmp_path / "program.py"
    path.write_text(f"{example('candidate_cuda')}\n\n{check}")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, str(path)], check=True, env=environment, timeout=120)


def test_the_estimate_of_tokens_is_not_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    tiktoken = pytest.importorskip("tiktoken")
    if not list(folder.glob("9b5ad71b2ce5302211f9c61530b329a4922fc6a4")):
        pytest.skip("this litellm brings no encoding along")
    encoding = tiktoken.get_encoding("cl100k_base")
    texts = [path.read_text() for path in sorted((ROOT / "operators").rglob("*.py"))]
    texts += [path.read_text() for path in (ROOT / "tests" / "operators").rglob("golden/*")]
    for text in texts:
        assert len(encoding.encode(text, disallowed_special=())) <= tokens_in(text)
    assert BYTES_PER_TOKEN >= 2
