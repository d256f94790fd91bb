"""The tables of ISOPro's simulations: all that it offers has a row, and the page runs each command that a row names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_blocks import blocks

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "simulations.md").read_text("utf-8")
THEIRS = {
    "Conversations": """
        ConversationSimulator ai_prompt run_simulation persona_type num_turns=5 role content upset human_request
        inappropriate incomplete_info run_custom_simulation name characteristics message_templates sentiment coherence
        length""",
    "Orchestration": """
        OrchestrationEnv run_simulation agent sequence parallel node input_data BaseComponent priority run
        execution_time memory_usage coherence""",
    "Attacks": """
        AdversarialSimulator agent_wrapper num_adversarial_agents attack_types attack_targets run_simulation input_data
        num_steps=1 original_input perturbed_input original_output perturbed_output textbugger deepwordbug fgsm pgd
        num_bugs=5 avg_input_similarity avg_output_similarity metric_changes""",
    "Workflow": """
        WorkflowSimulator click double_click drag type target_element text_input drag_end ui_elements bbox state
        cursor_pos last_action progress mean_reward std_reward mean_length success_rate total_episodes""",
    "Environments": "CartPole CarRL",
    "REST interface": """
        /healthcheck status /simulate reason qa adversarial orchestration prompt context model question persona_type
        custom_persona characteristics message_templates num_turns=1 ai_prompt attack_type num_steps=1 input_data
        mode='agent' tools run_id output metadata simulation_type timestamp error 400 500""",
}
"""Classes, calls, options and fields, by section."""


def rows(section: str) -> list[tuple[str, str]]:
    """What is theirs and what is ours, with the bars of `a\\|b` kept."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ISOPro ")]
    return [tuple(re.split(r" (?<!\\)\| ", line.strip("| "), maxsplit=1)) for line in lines]  # type: ignore[misc]


@pytest.mark.parametrize("section", THEIRS)
def test_all_that_isopro_offers_has_a_row(section: str) -> None:
    theirs = " ".join(left for left, _ in rows(section))
    missing = [name for name in THEIRS[section].split() if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", theirs)]
    assert missing == []


def test_the_page_runs_what_its_tables_name() -> None:
    """Each command with its options, except `gce serve`; words in capitals stand for others."""
    code = "\n".join(block.code for block in blocks(PAGE))
    ours = [right for section in THEIRS for _, right in rows(section)]
    spans = [span for right in ours for span in re.findall(r"`([^`]+)`", right)]
    named = [span for span in spans if re.match(r"(gce (?!serve)|python -m |--(?!tasks))", span)]
    assert len(named) > 15
    for span in named:
        words = [word.strip('"') for word in span.split() if not re.search(r"\b[A-Z]+\b", word)]
        assert [word for word in words if word not in code] == [], span
        assert not span.startswith("gce ") or " ".join(span.split()[:2]) in code, span
