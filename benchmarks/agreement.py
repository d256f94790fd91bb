"""How closely SmolLM2's samplers agree with float32: `python -m benchmarks.agreement`, or some: `... Q8_0 F32`.

Each sampler answers the same T5 problems, greedily and at temperature 0.8, and float32 reads the answers. Greedy
agreement is the share of greedy tokens that float32 ranks first too; the difference is the mean absolute difference of
the log-probabilities of tokens drawn at temperature 0.8, in nats, from float32's. Both with a 95 % interval, by a
bootstrap over problems.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from benchmarks.peers import problems
from benchmarks.quantized import smollm2_file
from gce.adapters.models.local.model import LocalModel
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.wiring.models import find_model, model_directory
from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import Precision
from gce.domain.tasks import TASKS
from gce.ports.model import Sampler

GREEDY, WARM = 0.0, 0.8
SAMPLERS = ("float32", "bfloat16", "Q4_1", "Q8_0", "F32")


class Float32:
    """What the log-probabilities of given tokens are in float32, and whether each is the most probable one."""

    def __init__(self) -> None:
        model = find_model(settings("smollm2", "float32"), TASKS["scheduling"])
        assert isinstance(model, LocalModel)
        self.engine = model.engine
        self.head = load_file(Path(model_directory("smollm2"), "model.safetensors"))["model.embed_tokens.weight"].T

    def __call__(self, completion: Completion) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities, (tokens,), and whether each token is the most probable, (tokens,)."""
        prompt, tokens = completion.prompt_token_ids or (), completion.token_ids or ()
        logits = self.engine.hidden((*prompt, *tokens), len(prompt) - 1, adapter=False)[:-1] @ self.head
        logits -= logits.max(axis=1, keepdims=True)
        own = logits[np.arange(len(tokens)), list(tokens)]
        return own - np.log(np.exp(logits).sum(axis=1)), own == 0


def settings(model: str, precision: Precision) -> TrainSettings:
    """Of a model on the CPU."""
    return TrainSettings(model=ModelSettings(name=model, device="cpu", precision=precision))


def sampler(name: str) -> Sampler:
    """SmolLM2 in this precision, or in llama.cpp in this format."""
    chosen: TrainSettings
    match name:
        case "float32" | "bfloat16":
            chosen = settings("smollm2", name)
        case "Q4_1" | "Q8_0" | "F32":
            chosen = settings(f"llama:{smollm2_file(name)}", "float32")
        case _:
            raise ValueError(f"expected one of {', '.join(SAMPLERS)}, got {name!r}")
    found = find_model(chosen, TASKS["scheduling"])
    assert isinstance(found, Sampler)
    return found


def interval(groups: Iterable[np.ndarray]) -> tuple[float, float, float]:
    """The mean over all entries, and the 95 % interval of a bootstrap over groups (10,000 resamples)."""
    sums = np.array([(group.sum(), len(group)) for group in groups])
    drawn = np.random.Generator(np.random.Philox(0)).integers(len(sums), size=(10_000, len(sums)))
    means = sums[drawn].sum(axis=1)
    low, high = np.quantile(means[:, 0] / means[:, 1], (0.025, 0.975))
    return float(sums[:, 0].sum() / sums[:, 1].sum()), float(low), float(high)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agreement", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "samplers", nargs="*", metavar="SAMPLER", help=f"of {', '.join(SAMPLERS)}; all if none is named"
    )
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=100, help="maximum tokens of an answer")
    options = parser.parse_args()
    for name in options.samplers:
        if name not in SAMPLERS:
            parser.error(f"no sampler {name!r}: choose of {', '.join(SAMPLERS)}")
    read = Float32()
    asked = problems(options.problems, "T5")
    print("| sampler | greedy tokens | greedy agreement, % | drawn tokens | mean absolute difference, nats |")
    print("|---|---|---|---|---|")
    for name in options.samplers or SAMPLERS:
        model, line = sampler(name), [name]
        for temperature in (GREEDY, WARM):
            requests = [
                SampleRequest(problem.key, problem.prompt, place, temperature, options.tokens)
                for place, problem in enumerate(asked)
            ]
            groups = []
            for completion in model.sample(requests):
                exact, first = read(completion)
                apart = np.abs(exact - np.array(completion.log_probabilities))
                groups.append(100.0 * first if temperature == GREEDY else apart)
            mean, low, high = interval(groups)
            digits = 1 if temperature == GREEDY else 4
            line += [str(sum(map(len, groups))), f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"]
        print(f"| {' | '.join(line)} |", flush=True)


if __name__ == "__main__":
    main()
