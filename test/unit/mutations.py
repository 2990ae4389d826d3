"""Mutations of texts for fuzzing: .mlir, pipelines and JSON, each drawn from a generator of random numbers."""

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from lamina.core.program import Call

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#^!]?[A-Za-z_][\w.$-]*|\d+\.\d+(?:[eE][+-]?\d+)?|\d+|->|\s+|.', re.DOTALL)
_NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "64",
    "127",
    "1000",
    "4294967296",
    "9223372036854775807",
    "99999999999999999999",
    "1.5",
    "1e39",
)
_TYPES = ("f16", "bf16", "f32", "f64", "i1", "i8", "i32", "i64", "index", "complex<f32>", "none", "vector<4xf32>", "f8E4M3FN")
_TYPE = re.compile(r"f\d+|bf16|i\d+|index")
_NOISE = ("\0", "\xff", "é", '"', "{", "}", "(", ")", "<", ">", "%", "//", "\\", "'", "=", ",", "\n")


def mutated(text: str, random: Random, most: int = 3) -> str:
    """Returns the text with one change, or up to `most` of them."""
    tokens = _TOKEN.findall(text)
    for _ in range(random.randint(1, most)):
        if tokens:
            random.choice(_CHANGES)(tokens, random)
    return "".join(tokens)


def _delete(tokens: list[str], random: Random) -> None:
    del tokens[random.randrange(len(tokens))]


def _repeat(tokens: list[str], random: Random) -> None:
    at = random.randrange(len(tokens))
    tokens.insert(at, tokens[at])


def _swap(tokens: list[str], random: Random) -> None:
    a, b = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[a], tokens[b] = tokens[b], tokens[a]


def _swap_near(tokens: list[str], random: Random) -> None:
    """Swaps two words and keeps the text between them: operands, arguments, ops in a chain."""
    words = [i for i, t in enumerate(tokens) if not t.isspace()]
    at = random.randrange(len(words)) if words else 0
    for other in words[at + 1 : at + 3][-1:]:
        tokens[words[at]], tokens[other] = tokens[other], tokens[words[at]]


def _number(tokens: list[str], random: Random) -> None:
    places = [i for i, t in enumerate(tokens) if t[0].isdigit()]
    if places:
        tokens[random.choice(places)] = random.choice(_NUMBERS)


def _type(tokens: list[str], random: Random) -> None:
    places = [i for i, t in enumerate(tokens) if _TYPE.fullmatch(t.lstrip("x")) and t != "x"]
    if places:
        at = random.choice(places)
        tokens[at] = "x" * tokens[at].startswith("x") + random.choice(_TYPES)


def _name(tokens: list[str], random: Random) -> None:
    """Replaces one name by another of its kind."""
    names = [i for i, t in enumerate(tokens) if (t[0] in "%@#^" and len(t) > 1) or (t[0].isalpha() and "." in t)]
    if names:
        at = random.choice(names)
        alike = [tokens[i] for i in names if tokens[i][0] == tokens[at][0] or tokens[i][0].isalpha() == tokens[at][0].isalpha()]
        tokens[at] = random.choice(alike)


def _line(tokens: list[str], random: Random) -> None:
    """Deletes or repeats a line."""
    lines = "".join(tokens).splitlines(keepends=True)
    at = random.randrange(len(lines))
    lines[at : at + 1] = [lines[at]] * random.choice((0, 2))
    tokens[:] = _TOKEN.findall("".join(lines))


def _cut(tokens: list[str], random: Random) -> None:
    del tokens[random.randrange(len(tokens)) :]


def _noise(tokens: list[str], random: Random) -> None:
    tokens.insert(random.randrange(len(tokens) + 1), random.choice(_NOISE))


_CHANGES: tuple[Callable[[list[str], Random], None], ...] = (
    _delete, _delete, _repeat, _swap, _swap_near, _number, _number, _type, _type, _name, _name, _line, _cut, _noise,
)  # fmt: skip


def damaged(data: bytes, random: Random) -> bytes:
    """Returns the bytes with some of them flipped, removed, repeated or inserted."""
    out = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(out)) if out else 0
        kind = random.randrange(5)
        if kind == 0 and out:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del out[at : at + random.randint(1, 64)]
        elif kind == 2:
            out[at:at] = out[at : at + random.randint(1, 64)]
        elif kind == 3:
            out[at:at] = random.randbytes(random.randint(1, 16))
        else:
            del out[at:]
    return bytes(out)


# args and kwargs among the fields of a Call (lamina.core.program), which is written as a list
_ARGUMENTS = frozenset(list(Call.__dataclass_fields__).index(name) for name in ("args", "kwargs"))


def restructured(value: Any, random: Random) -> Any:
    """JSON in which one value is of another type, or one field of an object is missing. Arguments of calls stay as they are: they
    may be of any type."""
    copy = json.loads(json.dumps(value))
    places = list(_places(copy))
    holder, key = random.choice(places)
    if isinstance(holder, dict) and random.random() < 0.4:
        del holder[key]
    else:
        old = type(holder[key])
        others = [None, True, [], {}, [[[]]], "text", {"a": 1}, [None], -1.5]
        holder[key] = random.choice([x for x in others if type(x) is not old])
    return copy


def _places(value: Any, fixed: frozenset[int] = frozenset()) -> Any:
    """Yields each (holder, key) but the items numbered `fixed`."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if key not in fixed:
            yield value, key
            yield from _places(inner, _ARGUMENTS if key == "Call" else frozenset())
