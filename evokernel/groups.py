"""The groups of the configuration: every setting, its default, its range, what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from archives.evaluation import LibraryPolicy

__all__ = [
    "ArchiveConfig",
    "BudgetConfig",
    "EvaluationConfig",
    "LibraryPolicy",
    "LlmConfig",
    "OperatorsConfig",
    "ProblemsConfig",
    "RunConfig",
    "SearchConfig",
]

Value = bool | int | float | str
Setting = Value | tuple[Value, ...]
Parameter = Setting | dict[str, Setting]


class _Group(BaseModel):
    """A frozen group of settings that knows no others."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,  # "--set problems.ids=19" is read as a number
    )


class ProblemsConfig(_Group):
    """Which problems, at which sizes."""

    level: int | None = Field(default=None, ge=1, le=4)
    """Level to run; None: the one file of `file`."""
    ids: str = ""
    """Ids within the level, such as "1,19-25"; empty: all."""
    source: str | None = None
    """Folder in KernelBench's layout; None: the bundled catalogue."""
    file: str | None = None
    """One problem file of the user's own."""
    seeds: str | None = None
    """Folder of human kernels to start from."""
    from_run: str | None = None
    """Folder of another run, whose elites are kernels to start from too."""
    scale: Literal["official", "small", "tiny"] | None = None
    """Sizes of bundled problems; None: official on a GPU, small on a CPU."""
    precision: Literal["fp32", "fp16", "bf16"] = "fp32"
    """Floating-point type of inputs, parameters and buffers."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""


class SearchConfig(_Group):
    """The shape of the search."""

    mode: Literal["evolution", "best-of-n"] = "evolution"
    """best-of-n spends the same budget on independent tries, as a baseline."""
    generations: int = Field(default=10, ge=0, le=100_000)
    """Generations after generation 0, which holds the seeds."""
    islands: int = Field(default=4, ge=1, le=64)
    """Sub-populations of each problem."""
    initial: int = Field(default=2, ge=0, le=64)
    """Parentless proposals of each island in generation 0, human seeds not counted."""
    founding: bool = False
    """Generation 0 begins with each sketch that fits and each lifted program, once each."""
    proposals: int = Field(default=4, ge=1, le=256)
    """Children of each island in each later generation."""
    migration_interval: int = Field(default=3, ge=0, le=100_000)
    """Generations between migrations; 0: never."""
    migrants: int = Field(default=1, ge=1, le=16)
    """Elites that an island sends at a migration."""
    stagnation: int = Field(default=4, ge=1, le=100_000)
    """Generations without a gain after which an island changes its ways."""
    ceiling_share: float = Field(default=0.97, gt=0, le=1)
    """Share of what the device can do at which a problem counts as solved."""
    stop_at_ceiling: bool | None = None
    """Stop a problem early where a verified elite has that share; None: on a GPU, not on a CPU."""
    together: int = Field(default=0, ge=0, le=10_000)
    """Problems that advance together, generation by generation; 0: all of them."""

    def solved_share(self, device: str) -> float | None:
        """Return the share of the ceiling at which problems stop early; None: they do not.

        Args:
            device: Kind of device, "cuda" or "cpu".
        """
        stops = device == "cuda" if self.stop_at_ceiling is None else self.stop_at_ceiling
        return self.ceiling_share if stops else None


class OperatorsConfig(_Group):
    """How children are made."""

    use: tuple[str, ...] = Field(
        default=("seed", "sketch", "compiler", "tune", "splice", "rewrite"), min_length=1
    )
    """Names of operators, or "package.module:NAME" for one of your own."""
    floor: float = Field(default=0.1, ge=0, le=0.5)
    """Least share of any operator that applies."""
    memory: float = Field(default=0.7, ge=0, le=1)
    """How much of its credit an operator keeps from one generation to the next."""
    settings: dict[str, dict[str, Setting]] = {}
    """Settings of single operators by name, such as settings.tune.configurations = 4."""


class ArchiveConfig(_Group):
    """What makes two candidates different."""

    axes: tuple[str, ...] = Field(default=("launches", "reuse", "work"), min_length=1, max_length=4)
    """Descriptors that span the grid; ["none"]: one cell."""
    pool: int = Field(default=0, ge=0, le=1000)
    """Best candidates of an island, whatever their cells, that it breeds from, always from the very
    best first; 0: it breeds from the elites of its cells."""


class EvaluationConfig(_Group):
    """How candidates are judged."""

    actors: int = Field(default=1, ge=1, le=256)
    """Referees of a CPU; those of one host take turns at its timed cores. On GPUs there is one for
    each, and every GPU is used."""
    ray_address: str | None = None
    """Address of a Ray cluster that runs already; None or "local": Ray starts on this machine."""
    verify: bool = True
    """Verify the best of each archive in fresh processes at its end."""
    verify_above: float = Field(default=1.02, ge=0)
    """Search speedup, matched where known, from which an elite is worth a verification."""
    verify_tries: int = Field(default=3, ge=1, le=100)
    """Elites of one problem that may fail their verification before it is left unverified."""
    failures: int = Field(default=8, ge=1, le=1000)
    """Failures of the evaluator itself in a row that end the run."""
    build_s: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds that building and constructing one configuration of a candidate may take; None: 60 on
    a CPU, 240 on a GPU, and of a Triton program 45 for each four kernels."""
    check_s: float = Field(default=10.0, gt=0, le=86_400)
    """Seconds that a call which is checked may take, and 30 times what the reference takes."""
    time_s: float = Field(default=10.0, gt=0, le=86_400)
    """Seconds that a leg which is timed may take, and 30 times what the reference takes for it."""
    library: LibraryPolicy = "mark"
    """What a candidate is worth whose own kernels take less than 90 % of the time: "mark": never
    sure; "allow": as much as a kernel of its own; "reject": no fitness."""
    baseline: str | None = None
    """File of `evokernel baseline` for matched speedups; None: one of this device, if known."""


class BudgetConfig(_Group):
    """When to stop early."""

    max_minutes: float | None = Field(default=None, gt=0, le=1_000_000)
    """Minutes for the whole run, verification included; resuming starts a new count."""
    max_evaluations: int | None = Field(default=None, ge=1)
    """Search evaluations of the whole run; verification is not counted."""


class LlmConfig(_Group):
    """Language models, and what they may cost; keys come from the environment, never from here."""

    models: tuple[str, ...] = ()
    """Models by litellm's names, such as "openai/gpt-5"; none: nobody is asked."""
    api_base: str | None = None
    """Address of an OpenAI-compatible server, such as "http://127.0.0.1:8000/v1"."""
    in_flight: int = Field(default=64, ge=1, le=4096)
    """Calls under way at a time, whatever the evaluator does meanwhile."""
    timeout_s: float = Field(default=120.0, gt=0, le=3600)
    """Seconds that one request may take."""
    retries: int = Field(default=4, ge=0, le=20)
    """Further requests of a call where the provider was at fault."""
    max_output_tokens: int = Field(default=8192, ge=64, le=1_000_000)
    """Tokens of a reply at most, reasoning included."""
    max_prompt_tokens: int = Field(default=24_000, ge=1000, le=1_000_000)
    """Tokens of a prompt at most; what matters least is cut first."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """Sampling temperature; None: the provider's own."""
    reasoning_effort: str | None = None
    """How long a reasoning model may think, such as "low"; None: the provider's own."""
    parameters: dict[str, Parameter] = {}
    """Further parameters, sent as they are, such as parameters.top_p = 0.9."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    """Dollars of the whole run; then no model is asked any more."""
    max_calls: int | None = Field(default=None, ge=1)
    """Requests of the whole run, retries included."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of the whole run, sent and received."""
    problem_cost_usd: float | None = Field(default=None, gt=0)
    """Dollars for each problem."""
    problem_calls: int | None = Field(default=None, ge=1)
    """Requests for each problem, retries included."""
    problem_tokens: int | None = Field(default=None, ge=1)
    """Tokens for each problem, sent and received."""
    input_price_usd: float | None = Field(default=None, ge=0)
    """Dollars for a million tokens sent, for models that litellm has no price of."""
    output_price_usd: float | None = Field(default=None, ge=0)
    """Dollars for a million tokens received, for models that litellm has no price of."""


class RunConfig(_Group):
    """Everything that defines a run."""

    problems: ProblemsConfig = ProblemsConfig()
    search: SearchConfig = SearchConfig()
    operators: OperatorsConfig = OperatorsConfig()
    archive: ArchiveConfig = ArchiveConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    budget: BudgetConfig = BudgetConfig()
    llm: LlmConfig = LlmConfig()
    rng_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Root of all random streams of the search (never of the referee's secrets)."""
