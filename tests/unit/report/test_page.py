"""The page as HTML; how it looks is for the browser to say."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from ansible_collections.llmops.vllm.plugins.plugin_utils.report import words
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.page import page
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.record import Failure, Finding
from ansible_collections.llmops.vllm.plugins.plugin_utils.report.tags import Markup, tag
from ansible_collections.llmops.vllm.tests.unit.report.samples import Story, doctor, one, third_of_five, two_hundred

EVIL = "\"'><script>alert(4)</script>&amp;<img src=x onerror=alert(4)>"


class Outline(HTMLParser):
    """Which elements a page is made of; refuses one that is not closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        self.attributes += attrs
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag


def test_text_is_text():
    run = third_of_five()
    quiet = Outline(page(run)).elements
    for host in run.hosts:
        host.name = host.play = host.release = EVIL
        host.failures += [Failure(EVIL, EVIL)] * bool(host.failures)
        host.changes = [EVIL] * len(host.changes)
        host.findings = [Finding(EVIL, EVIL, {EVIL: EVIL}, EVIL, EVIL, EVIL)] * len(host.findings)
        for measured in host.measurements:
            measured.diagnosis = measured.verdict = measured.release = EVIL
        for stage in host.stages:
            stage.steps = [{"name": EVIL, "seconds": 1}] * len(stage.steps)
    run.playbook = EVIL
    loud = Outline(page(run))
    assert loud.elements["script"] == loud.elements["img"] == 0
    assert not [name for name, _unused in loud.attributes if name.startswith("on")]
    assert set(loud.elements) == set(quiet)


@pytest.mark.parametrize("run", [one, third_of_five, two_hundred])
def test_it_needs_nothing_else_and_its_links_lead_somewhere(run):
    text = page(run())
    assert not re.search(r"(?:src|href)=\"[^#\"]|url\(|@import|<script|<link", text)
    there = set(re.findall(r' id="([^"]+)"', text))
    links = set(re.findall(r' href="#([^"]+)"', text))
    assert links
    assert links <= there


@pytest.mark.parametrize(("run", "hosts", "shown"), [(one, 1, 1), (third_of_five, 5, 3), (two_hundred, 200, 6)])
def test_a_row_for_each_host_and_what_is_shown_at_once(run, hosts, shown):
    text = page(run())
    assert text.count('<div class="lane"') == hosts
    assert text.count('class="part" open=""') == shown
    # The same findings of all hosts are told once.
    assert text.count('class="severity ') == 3


def test_hosts_on_which_it_failed_come_first():
    assert re.findall(r"<summary class=\"\w+\"><b>([^<]+)", page(third_of_five())) == ["gpu3", "gpu1", "gpu2"]


def test_what_the_last_failure_repeats_is_told_once():
    run = third_of_five()
    assert page(run).count("Evidence: 12 of 7035") == 1
    run.hosts[2].failures[0].message = "Another one"
    text = page(run)
    assert text.index("is back at") < text.index("Another one")


def test_both_measurements_are_drawn():
    text = page(third_of_five())
    assert text.count('class="first"') == 3 * 7
    assert text.count('class="last"') == 3 * 7
    assert "fell short: 1.2%, 0.0%" in text
    assert "back: 100.0%, 100.0%" in text
    assert "before: 100.0%, 100.0%" in text
    assert '<span class="before">6.31</span>7.92' in text


def test_of_a_run_that_is_not_over_it_is_told_how_far_it_came():
    story = Story(["a", "b", "c"])
    story.batch("a", "b")
    story.good("a")
    story.prepare("b")
    story.recorder.start("b", "vllm_serve", story.at, "Wait until it is ready")
    text = page(story.recorder.so_far(story.at + 20))
    assert "rollout unfinished" in text
    assert "3 hosts: 1 passed, 1 unfinished, 1 not reached" in text
    assert re.findall(r"<summary class=\"\w+\"><b>([^<]+)", text) == ["b", "a"]
    assert "If the run is over, it was interrupted here." in text
    assert "At: <b>Wait until it is ready</b>" in text
    assert "interrupted" not in page(one())


def test_a_measurement_without_figures_is_told_in_words():
    run = one()
    run.hosts[0].before = None
    (measured,) = run.hosts[0].measurements
    measured.per_position, measured.acceptance_length, measured.diagnosis = [], None, "The server does not answer."
    text = page(run)
    assert "<svg" not in text
    assert "The server does not answer." in text


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.95, "10 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")],
)
def test_spans(seconds, told):
    assert words.span(seconds) == told


def test_tags():
    assert tag("a", "<", [Markup("<b></b>"), None], href='"', data_label="x", id=None) == (
        '<a href="&quot;" data-label="x">&lt;<b></b></a>'
    )


def test_what_the_doctor_saw():
    text = page(doctor())
    assert (
        "48 servers on 50 hosts: 7 error, 4 warning, 37 ok; 1 host without a server: error; 1 host not reached" in text
    )
    assert "doctor found errors, and did not reach all</h1>" in text
    rows = re.findall(r'<th scope="row">(gpu\d\d)[^<]*</th>.*?class="verdict (\w+)"', text)
    assert len(rows) == 50
    assert [grade for _host, grade in rows][:14] == ["bad"] * 8 + ["none"] + ["warning"] * 4 + ["good"]
    assert text.count("it is the target&#x27;s pad token") == 1, "what several have is told once"
    assert "<summary>7: gpu04, gpu11, gpu18, gpu25, ...</summary>gpu32, gpu39, gpu46</details>" in text
    assert (
        text.index("The drafter&#x27;s config.json does not fit")
        < text.index("Engines without a server")
        < text.index("0.0.0.0 without a key")
    )
    assert "unreachable" in text


def test_who_is_well_is_seen_before_anything_is_read():
    """Each host once, by its worst, and each leads to its row."""
    text = page(doctor())
    tiles = re.findall(r'<a href="#([\w-]+)" class="tile (\w+)">(gpu\d\d)</a>', text)
    assert Counter(grade for _place, grade, _name in tiles) == {"bad": 8, "none": 1, "warning": 4, "good": 37}
    assert [name for _place, grade, name in tiles if grade == "none"] == ["gpu50"]
    assert {place: name for place, _grade, name in tiles} == dict(
        re.findall(r'<tr id="([\w-]+)"><th scope="row">(gpu\d\d)', text)
    )


def test_what_the_sick_share():
    """They have another vLLM than the others. What keeps them they have in common with those that are well."""
    shared = page(doctor()).partition("What the sick share")[2].partition("</table>")[0]
    rows = re.findall(r"<tr><td>([^<]+)</td><th[^>]*>([^<]+)</th>(.*?)</tr>", shared)
    assert [(what, which, re.findall(r">([^<]+)</td>", cells)) for what, which, cells in rows] == [
        ("vLLM", "0.28.1", ["11", "7", "1", "3"])
    ]


@pytest.mark.parametrize(
    ("servers", "findings", "state", "said"),
    [
        (["ok"], [], "passed", "doctor found nothing wrong"),
        (["ok", "warning"], [], "warning", "doctor found warnings"),
        (["ok"], ["error"], "failed", "doctor found errors"),
        ([], ["note"], "passed", "doctor found nothing wrong"),
    ],
)
def test_it_says_at_once_what_the_doctor_found(servers, findings, state, said):
    """That the run went well says nothing of the servers."""
    story = Story(["gpu1"], "doctor")
    story.batch("gpu1")
    one = {"model": "m", "flags": {}, "port": 1, "keeper": "nohup", "findings": []}
    beside = [{"severity": name, "what": "x", "evidence": "x", "remedy": "x"} for name in findings]
    told = {
        "servers": [{**one, "health": health, "probe": {"acceptance_length": 7.9}} for health in servers],
        "findings": beside,
    }
    story.task("gpu1", "", 0.2, "vllm_doctor", told)
    text = page(story.end())
    assert f"</span> {said}</h1>" in text
    assert f'<header class="{state}">' in text
    assert ('data-label="probed" class="number">7.90</td>' in text) == bool(servers)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["gpu1.a.org", "gpu2.a.org"], ["gpu1", "gpu2"]),
        (["gpu1.a.org", "gpu2.b.org"], ["gpu1.a.org", "gpu2.b.org"]),
        (["10.0.0.1", "11.0.0.1"], ["10.0.0.1", "11.0.0.1"]),
        (["gpu1.a.org"], ["gpu1.a.org"]),
        (["gpu1", "gpu2"], ["gpu1", "gpu2"]),
    ],
)
def test_hosts_by_what_tells_them_apart(names, told):
    assert list(words.named(names).values()) == told
