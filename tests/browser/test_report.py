"""The page of a run in a real browser: that it fits, can be read in both schemes, and asks for nothing."""

from __future__ import annotations

import pytest

from ansible_collections.llmops.vllm.plugins.plugin_utils.report.page import page
from ansible_collections.llmops.vllm.tests.browser.chromium import PROGRAM, Chromium
from ansible_collections.llmops.vllm.tests.unit.report import samples

pytestmark = pytest.mark.long
RUNS = {
    "doctor": samples.doctor,
    "one": samples.one,
    "third-of-five": samples.third_of_five,
    "two-hundred": samples.two_hundred,
}
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const channels = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (channels(colour)[3] === 255) return colour;
    }
    return 'white';
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const written = [...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.textContent.trim());
    if (!written || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(element.closest('svg') ? style.fill : style.color), light(ground(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(element.textContent + ' ' + ((a + 0.05) / (b + 0.05)).toFixed(2));
  }
  return poor;
})()
"""

BROKEN = """
(() => {
  const broken = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest('.lane')) continue;
    for (const word of node.data.matchAll(/(?<!\\S)\\S{2,14}(?!\\S)/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (!word[0].includes('-') && new Set([...range.getClientRects()].map((r) => r.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not PROGRAM:
        pytest.skip("there is no Chromium here (apt-get install chromium)")
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    where = tmp_path_factory.mktemp("pages")
    for name, run in RUNS.items():
        (where / f"{name}.html").write_text(page(run()), encoding="utf-8")
    return where


@pytest.mark.parametrize("width", [360, 768, 1248, 1249, 1400])
@pytest.mark.parametrize("name", RUNS)
def test_it_fits(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width)
    assert browser.see("document.documentElement.scrollWidth") <= width
    # Nothing sticks out of the window, but for what lies in a box of its own that can be scrolled or is cut on purpose.
    assert (
        browser.see(
            """[...document.querySelectorAll('body *')].filter((e) => !e.closest('.chart, .lane') && e.checkVisibility()
            && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 200))"""
        )
        == []
    )


@pytest.mark.parametrize("width", [360, 1249, 1400])
@pytest.mark.parametrize("name", ["one", "third-of-five"])
def test_no_word_is_broken(browser, pages, name, width):
    """Long names and paths may be, but not what a person reads as a word."""
    browser.open(pages / f"{name}.html", width)
    assert browser.see(BROKEN) == []


@pytest.mark.parametrize("name", RUNS)
def test_it_asks_for_nothing_and_complains_of_nothing(browser, pages, name):
    browser.open(pages / f"{name}.html", 1400)
    assert browser.requests == [(pages / f"{name}.html").as_uri()]
    assert browser.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["doctor", "third-of-five"])
def test_all_text_stands_out_from_its_ground(browser, pages, name, scheme):
    browser.open(pages / f"{name}.html", 1400, scheme)
    assert browser.see(CONTRAST) == []


def test_dark_is_dark_and_light_is_light(browser, pages):
    grounds = {}
    for scheme in ("light", "dark"):
        browser.open(pages / "third-of-five.html", 1400, scheme)
        grounds[scheme] = browser.see("getComputedStyle(document.body).backgroundColor")
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}


@pytest.mark.parametrize(
    ("name", "hosts", "batches"), [("one", 1, 1), ("third-of-five", 5, 4), ("two-hundred", 200, 3)]
)
def test_a_row_for_each_host(browser, pages, name, hosts, batches):
    browser.open(pages / f"{name}.html", 1400)
    assert browser.see("document.querySelectorAll('.hosts tbody').length") == batches
    heights = browser.see(
        "[...document.querySelectorAll('.hosts tr:has(.lane)')].map((e) => e.getBoundingClientRect().height)"
    )
    assert len(heights) == hosts
    assert all(20 <= height <= 40 for height in heights)


def test_stages_lie_where_they_were(browser, pages):
    """Within a host one after the other, and the third host's after the second's."""
    browser.open(pages / "third-of-five.html", 1400)
    lanes = browser.see(
        """[...document.querySelectorAll('.lane')].map((lane) => [...lane.children].map((e) => {
        const b = e.getBoundingClientRect(); return [b.left, b.left + b.width]; }))"""
    )
    assert [len(lane) for lane in lanes] == [6, 6, 8, 0, 0]
    edges = [edge for lane in lanes for edge in lane]
    assert all(end - start >= 2 for start, end in edges)
    assert all(after[0] >= before[1] - 2 for before, after in zip(edges, edges[1:]))


def test_bars_are_as_high_as_what_was_accepted(browser, pages):
    browser.open(pages / "third-of-five.html", 1400)
    poor, good = (
        browser.see(
            f"[...document.querySelector('.part svg').querySelectorAll('.{kind}')].map((e) => e.getBoundingClientRect().height)"
        )
        for kind in ("first", "last")
    )
    assert len(poor) == len(good) == 7
    assert max(poor) < 3
    assert good == sorted(good, reverse=True)
    assert good[6] / good[0] == pytest.approx(0.969, abs=0.01)


def test_a_link_opens_what_it_leads_to(browser, pages):
    """Of two hundred hosts those that are well are folded up."""
    path = pages / "two-hundred.html"
    shown = "document.querySelector(location.hash).checkVisibility({contentVisibilityAuto: true})"
    folded = "[...document.querySelectorAll('.part:not([open])')].length"
    browser.open(path, 1400)
    before = browser.see(folded)
    browser.open(path, 1400, fragment="#host-7")
    assert browser.see(shown)
    assert browser.see(folded) == before - 1 == 193
