"""Stores findings as lines of JSON in a file, and formats them as tables."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lamina.tools.benchmarks.tables.figures import markdown_table

BOUNDS = {"float32": 2e-4, "bfloat16": 4e-2, "float16": 1e-2}
"""Bounds the relative error by dtype: a result with more is wrong, unless eager's error is at least a quarter of its own."""
TF32 = 4e-3
"""Bounds the relative error of convolutions in f32 on a GPU, whose library may round their operands to tf32, as torch allows by
default; which of its algorithms do so depends on the layout."""

OURS = ("lamina", "lamina.compile")
"""Names the contenders that are Lamina: through torch.compile, and compiled ahead of time."""


@dataclass
class Finding:
    """Describes one graph and its measurements.

    seed      the seed that draws it, or its name
    text      the graph in one line
    graph     the graph as data
    seconds   of a call, by contender
    errors    from float64, by contender
    compile_seconds  of compiling with the first call, by contender
    failures  why a contender did not finish, by contender
    failed    why nothing was measured, such as eager's error; "" if something was
    again     ratios of later measurements, in processes of their own
    smaller   the smallest graph that is slow too, as data and text
    note      what was done about it
    kernels   name, count and microseconds of the GPU kernels of a call, by contender
    peak      peak bytes of GPU memory in calls, with the model's weights, by contender
    graph_seconds  from AOTAutograd's graph to the first result, without caches, by compiler
    choices   lamina.tune.choice.TunedChoice as JSON of each hot op that was measured; None if nobody asked
    """

    seed: str
    text: str = ""
    graph: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    compile_seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    failed: str = ""
    again: list[float] = field(default_factory=list)
    smaller: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    kernels: dict[str, list[tuple[str, float, float]]] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    graph_seconds: dict[str, float] = field(default_factory=dict)
    choices: list[dict[str, Any]] | None = None

    @property
    def measured(self) -> bool:
        """Whether contenders ran: not if eager refuses the graph, nor if only its compile times are known."""
        return not self.failed and bool(self.seconds or self.failures)

    @property
    def ratio(self) -> float:
        """Lamina's time over that of the fastest peer, the least of all measurements; infinite if it has none."""
        return min([self.first, *self.again])

    @property
    def first(self) -> float:
        """The ratio of the first measurement."""
        return self._to_best("lamina")

    @property
    def ahead(self) -> float:
        """The ratio of lamina.compile, which does without Dynamo; infinite if it was not measured."""
        return self._to_best("lamina.compile")

    def _to_best(self, name: str) -> float:
        lamina = self.seconds.get(name)
        return math.inf if lamina is None or not self.best else lamina / self.seconds[self.best]

    @property
    def best(self) -> str:
        """The name of the fastest peer; "" if none was measured."""
        return min((name for name in self.seconds if name not in OURS), key=self.seconds.__getitem__, default="")

    @property
    def fault(self) -> str:
        """Why Lamina failed, or how wrong its result is; "" if neither."""
        if "lamina" in self.failures:
            return self.failures["lamina"] or "failed"
        return f"error {self.errors['lamina']:.1e}, eager's {self.errors.get('eager', math.nan):.1e}" if self.wrong else ""

    @property
    def wrong(self) -> bool:
        """Whether Lamina's error is above the bound for the dtype and above four times eager's."""
        lamina, eager = self.errors.get("lamina", 0.0), self.errors.get("eager", 0.0)
        bound = BOUNDS.get(self.graph.get("dtype", ""), 1e-2)
        if self.peak and any("Conv" in node["module"] for node in self.graph.get("nodes", ())):
            bound = max(bound, TF32)
        return lamina > bound and lamina > 4 * eager


def load(path: Path) -> dict[str, Finding]:
    """Reads findings by seed; later lines replace earlier ones."""
    findings: dict[str, Finding] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            one = Finding(**json.loads(line))
            findings[one.seed] = one
    return findings


def append(path: Path, finding: Finding) -> None:
    """Appends a finding to the file."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(finding)) + "\n")


def summary(findings: Sequence[Finding]) -> dict[str, float]:
    """Summarizes the graphs that eager runs.

    Returns how many there are, the geometric mean of finite ratios, the share above 1.05, the number above 1.15, the number above
    1.05 by lamina.compile too, the worst ratio, and how many failed or are wrong.
    """
    findings = [f for f in findings if f.measured]
    ratios = [f.ratio for f in findings]
    finite = [r for r in ratios if math.isfinite(r)]
    return {
        "graphs": len(ratios),
        "geometric mean": statistics.geometric_mean(finite) if finite else math.nan,
        "above 1.05": sum(r > 1.05 for r in ratios) / max(1, len(ratios)),
        "above 1.15": sum(r > 1.15 for r in ratios),
        "above 1.05 ahead": sum(min(f.ratio, f.ahead) > 1.05 for f in findings),
        "worst": max(ratios, default=math.nan),
        "failed or wrong": sum(bool(f.fault) for f in findings),
    }


def by_operation(findings: Sequence[Finding]) -> list[tuple[str, int, float, float]]:
    """Returns (operation, how many graphs have it, geometric mean of their ratios, worst ratio), the slowest first."""
    ratios: dict[str, list[float]] = {}
    for f in findings:
        if f.measured and math.isfinite(f.ratio):
            for name in {_operation(node) for node in f.graph["nodes"]}:
                ratios.setdefault(name, []).append(f.ratio)
    rows = [(name, len(each), statistics.geometric_mean(each), max(each)) for name, each in ratios.items()]
    return sorted(rows, key=lambda row: -row[2])


def _operation(node: dict[str, Any]) -> str:
    module: str = node["module"]
    if module:
        name = module.partition("(")[0].removeprefix("nn.")
        return f"depthwise {name}" if name.startswith("Conv") and "groups=" in module else name
    text: str = node["expression"].format("x", "y", m="m")
    return text.partition("(")[0] if text[0] in "Ft" else text[:24]


def markdown(findings: Sequence[Finding], worst: int = 25) -> str:
    """Formats the summary and the worst graphs, with what was done about each."""
    n = summary(findings)
    lines = [
        f"{n['graphs']:.0f} graphs: geometric mean {n['geometric mean']:.2f} of the best other, {n['above 1.05']:.0%} above 1.05,"
        f" {n['above 1.15']:.0f} above 1.15, the worst {n['worst']:.2f}, {n['failed or wrong']:.0f} failed or wrong;"
        f" {n['above 1.05 ahead']:.0f} above 1.05 by lamina.compile, too.",
        "",
    ]
    rows = []
    for f in sorted(findings, key=lambda f: -f.ratio if not f.failed else 0)[:worst]:
        if not f.measured or f.ratio <= 1.05:
            continue
        text = (f.smaller or {"text": f.text})["text"].replace("|", "\\|")
        times = (f"{f.seconds[name] * 1e6:.0f}" if name in f.seconds else "" for name in (f.best, *OURS))
        rows.append((f.seed, f"{f.ratio:.2f}", f.best, *times, f"`{text[:300]}`", f.note))
    texts = ("best other", "graph, or the smallest that is slow", "note")
    columns = ("seed", "ratio", texts[0], "us", "Lamina us", "lamina.compile us", *texts[1:])
    return "\n".join([*lines, markdown_table(columns, rows, texts)])


def memory(findings: Sequence[Finding]) -> str:
    """Formats the peak GPU memory of calls in MiB, by contender; "" if none was measured."""
    measured = [f for f in findings if len(f.peak) > 1 and "lamina" in f.peak]
    if not measured:
        return ""
    names = list(dict.fromkeys(name for f in measured for name in f.peak))
    rows = [(f.seed, *(f"{f.peak[n] / 2**20:.0f}" if n in f.peak else "" for n in names)) for f in measured]
    return markdown_table(("seed", *(f"{name} MiB" for name in names)), rows)


def compile_table(findings: Sequence[Finding]) -> str:
    """Formats seconds from AOTAutograd's graph to the first result, by compiler; "" if none were measured."""
    pairs = [(f, f.graph_seconds["lamina"], f.graph_seconds["torch.compile"]) for f in findings if len(f.graph_seconds) > 1]
    if not pairs:
        return ""
    mean = statistics.geometric_mean(lamina / inductor for _, lamina, inductor in pairs)
    rows = [(f.seed, f"{inductor:.2f}", f"{lamina:.2f}", f"{lamina / inductor:.2f}") for f, lamina, inductor in pairs]
    head = f"Cold compiles of {len(pairs)} graphs: geometric mean {mean:.2f} of torch.compile's.\n\n"
    return head + markdown_table(("seed", "torch.compile s", "Lamina s", "ratio"), rows)
