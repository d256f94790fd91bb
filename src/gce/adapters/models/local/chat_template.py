"""Chat templates: one renderer for all backends, so that a model reads the same prompt with each of them.

A template is rendered as `apply_chat_template` of transformers does, and examined once, before anything is sampled.
Works on text, not tokens; independent of vendors other than jinja2.

Source: https://huggingface.co/docs/transformers/chat_templating_writing
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, field, frozen

from gce.adapters.models.local.token_sequences import template_messages
from gce.adapters.models.requests import PLAIN_TEMPLATE
from gce.adapters.system.input_files import read_input
from gce.domain.problems import Message
from gce.domain.tasks.task import THINK_END, THINK_START
from gce.errors import MissingExtra, ModelError, one_line

try:
    from jinja2 import TemplateError, TemplateSyntaxError, nodes
    from jinja2.ext import Extension
    from jinja2.meta import find_undeclared_variables
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as error:
    raise MissingExtra("jinja2", "train") from error

__all__ = ["ChatTemplate", "TemplateSettings"]

Turn = dict[str, Any]

_PLAIN = "{{ begin }}{{ messages | map(attribute='content') | join('\\n\\n') }}"
_DEFAULT, _TOOL_USE = "default", "tool_use"
"""Names of a model's templates, where it has several."""
_MOST_BYTES = 2**20
_MOST_STEPS = 10**6
"""Of all loops over `range` together: a template may be anybody's."""
_SYSTEM, _QUESTION, _ANSWER = ("".join(f"gce-{what}-{n}" for n in range(99)) for what in ("system", "user", "answer"))
"""Longer than what a template that cuts messages leaves."""
_MARK = "\ue000gce\ue001"


@frozen
class TemplateSettings:
    """What a user decides about a model's chat template."""

    template: str = ""
    """Empty: the model's own. `plain`: messages, separated by blank lines. Otherwise the path of a Jinja file."""
    arguments: Mapping[str, Any] = field(factory=dict)
    """What the template is given beside the conversation, such as `enable_thinking`."""
    day: date = field(factory=date.today)
    """What a template that reads the clock is told, at midnight."""


class ChatTemplate:
    """Renders conversations for one model."""

    def __init__(
        self,
        name: str,
        own: str | Mapping[str, str] | None,
        tokens: Mapping[str, Any],
        settings: TemplateSettings,
        *,
        begin: str = "",
    ) -> None:
        """Examine the template of the model `name`: its `own` (one, or several by name), or that of `settings`.

        `tokens` are texts of special tokens by the names that templates have for them, such as `bos_token`; `begin` is
        what the tokenizer puts before a text that is no conversation, for `plain`. Raises ModelError if there is no
        template, or it has an error, or it loses messages.
        """
        file = f" {settings.template!r}" if settings.template else ""
        self._called = f"the chat template{file} of {name!r}"
        clock = datetime.combine(settings.day, time()).strftime
        self._given = {"strftime_now": clock, **tokens, "documents": None, **settings.arguments}
        if settings.template == PLAIN_TEMPLATE:
            self._given["begin"] = begin
        sources = _sources(name, own, settings.template)
        written = json.dumps([sources, settings.arguments], sort_keys=True)
        self.digest = sha256(written.encode()).hexdigest() if settings.template or settings.arguments else ""
        """SHA-256 of what the user changed of the prompts; empty for nothing."""
        environment = _environment()
        try:
            self._templates = {kind: environment.from_string(source) for kind, source in sources.items()}
            names = [find_undeclared_variables(environment.parse(source)) for source in sources.values()]
        except Exception as error:  # jinja2 computes constants, which may be anything.
            line = f" in line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
            raise ModelError(f"{self._called} has an error{line}: {one_line(error)}") from error
        self.day = settings.day.isoformat() if any("strftime_now" in each for each in names) else ""
        """The date that the template reads; empty if it reads no clock."""
        self._in_parts, self._folds, self._warned = False, False, False
        self.around_answer = self._examine()
        """What the template writes before and after an assistant's message; empty if that is unknown."""

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), *, add_generation_prompt: bool
    ) -> str:
        """Return the text of a conversation; ModelError if the template refuses it."""
        turns = template_messages(messages)
        if self._folds and turns[0]["role"] == "system":
            turns = _folded(turns)
            if not self._warned:
                self._warned = True
                self._warn("takes no system message: it is put before the first user message")
        try:
            text = self._rendered(turns, tools, prompt=add_generation_prompt)
            text.encode()  # Half of a surrogate pair is no token.
            return text
        except Exception as error:  # A template may raise anything.
            raise ModelError(f"{self._called} refuses a conversation: {one_line(error)}") from error

    def opening(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the end of the prompt from `<think>` on, if it opens a thought; otherwise an empty text."""
        text = self.render(messages, tools, add_generation_prompt=True)
        if text.rfind(THINK_START) <= text.rfind(THINK_END):
            return ""
        marked = [*messages[:-1], evolve(messages[-1], content=messages[-1].content + _MARK)]
        tail = self.render(marked, tools, add_generation_prompt=True).rpartition(_MARK)[2]
        begin = tail.rfind(THINK_START)
        return "" if begin < 0 or THINK_END in tail[begin:] else tail[begin:]

    def _examine(self) -> tuple[str, str]:
        """Find out how the template wants conversations; return what it writes around an assistant's message."""
        question, answer = {"role": "user", "content": _QUESTION}, {"role": "assistant", "content": _ANSWER}
        if why := self._loses([question], _QUESTION):
            self._in_parts = True
            if self._loses([question], _QUESTION):
                hint = "give another one with {chat_template}"
                raise ModelError(f"{self._called} {why} a user's message", hint=hint)
        self._folds = bool(self._loses([{"role": "system", "content": _SYSTEM}, question], _SYSTEM, _QUESTION))
        try:
            prompt, without = (self._rendered([question], (), prompt=each) for each in (True, False))
            whole = self._rendered([question, answer], (), prompt=False)
        except Exception:  # A template may raise anything.
            return "", ""
        rest = whole.removeprefix(prompt)
        if prompt == without and rest != whole and not rest.lstrip().startswith(_ANSWER):
            self._warn("has no generation prompt: the model may go on as the user")
        before, answer_found, after = whole.rpartition(_ANSWER)
        return (before, after) if answer_found else ("", "")

    def _loses(self, turns: Sequence[Turn], *texts: str) -> str:
        """Return what the template does with a conversation in which one of `texts` is lost; empty if none is."""
        try:
            found = self._rendered(turns, (), prompt=True)
        except Exception as error:  # A template may raise anything.
            return f"raises {one_line(error)!r} for"
        whole = all(text in found for text in texts) and "'type': 'text'" not in found  # Not a list, written as one.
        return "" if whole else "loses"

    def _rendered(self, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]], *, prompt: bool) -> str:
        if self._in_parts:
            turns = [{**turn, "content": [{"type": "text", "text": turn["content"]}]} for turn in turns]
        template = self._templates[_TOOL_USE if tools and _TOOL_USE in self._templates else _DEFAULT]
        text: str = template.render(
            {"range": partial(_range, [0]), **self._given},
            messages=turns,
            tools=[dict(tool) for tool in tools] or None,
            add_generation_prompt=prompt,
        )
        return text

    def _warn(self, what: str) -> None:
        warnings.warn(f"{self._called} {what}", RuntimeWarning, stacklevel=2)


def _sources(name: str, own: str | Mapping[str, str] | None, template: str) -> dict[str, str]:
    """Return the templates to use by name."""
    if template == PLAIN_TEMPLATE:
        return {_DEFAULT: _PLAIN}
    if template:
        try:
            return {_DEFAULT: read_input(Path(template), _MOST_BYTES).decode()}
        except UnicodeDecodeError as error:
            raise ModelError(f"the chat template {template!r} is not UTF-8: {one_line(error)}") from error
    sources = {_DEFAULT: own} if isinstance(own, str) else dict(own or {})
    if _DEFAULT not in sources:
        found = f"only some named {', '.join(sources)}" if sources else "none"
        raise ModelError(
            f"expected a model with a chat template, {name!r} has {found}",
            hint="give a file with {chat_template}, or plain for a base model",
        )
    return sources


def _folded(turns: Sequence[Turn]) -> list[Turn]:
    """Return a conversation whose leading system messages are part of the first user message."""
    count = next((place for place, turn in enumerate(turns) if turn["role"] != "system"), len(turns))
    texts, rest = [turn["content"] for turn in turns[:count]], list(turns[count:])
    if rest and rest[0]["role"] == "user":
        texts.append(rest.pop(0)["content"])
    return [{"role": "user", "content": "\n\n".join(texts)}, *rest]


def _range(steps: list[int], *arguments: int) -> range:
    """Return a `range` of a template; OverflowError once all that `steps` counts are too long."""
    found = range(*arguments)
    steps[0] += len(found)
    if steps[0] > _MOST_STEPS:
        raise OverflowError(f"it loops more than {_MOST_STEPS:,} times")
    return found


class _Generation(Extension):
    """Blocks `{% generation %}`, which mark what an assistant wrote."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: Any) -> Any:
        """Return the block as a call, so that its variables are its own, as in transformers."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

    def _written(self, caller: Callable[[], str]) -> str:
        return caller()


def _environment() -> Any:
    """Return the environment of transformers, without the clock."""
    found = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    found.filters["tojson"] = _tojson
    found.globals["raise_exception"] = _raise
    # A prompt is not drawn at random.
    del found.filters["random"], found.globals["lipsum"]
    return found


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Return JSON without the escapes for HTML of jinja2's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> Literal[""]:
    raise TemplateError(message)
