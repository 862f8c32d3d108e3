"""Facts of the machine: hard ones decide comparability, soft ones define cohorts."""

import json

from runners import environment


def test_facts_are_known_and_can_be_stored():
    facts = environment.facts()
    assert facts.hard["num_cpus"] >= 1
    assert facts.hard["memory_bytes"] % 2**30 == 0
    assert facts.hard["architecture"]
    assert facts.soft["node"]
    assert facts.soft["kernel"]
    assert None not in [*facts.hard.values(), *facts.soft.values()]
    assert json.loads(json.dumps([facts.hard, facts.soft])) == [facts.hard, facts.soft]


def test_the_same_machine_has_the_same_facts():
    assert environment.facts() == environment.facts()


def test_what_cannot_change_the_code_is_soft():
    facts = environment.facts()
    assert not set(facts.hard) & set(facts.soft)
    assert "kernel" not in facts.hard
    assert "cpu_model" not in facts.soft


def test_devices_and_facts_agree():
    assert environment.num_devices() == environment.facts().hard.get("num_gpus", 0)
