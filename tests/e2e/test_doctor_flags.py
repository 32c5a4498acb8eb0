"""What the doctor knows of flags, held against the real parser of vLLM."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ansible_collections.llmops.vllm.plugins.module_utils._doctor import cmdline

pytestmark = pytest.mark.engine
BUILDS = Path(__file__).parents[2] / ".demo/vllm/builds"
ASK = """
import json
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
told = make_arg_parser(FlexibleArgumentParser())._option_string_actions
print(json.dumps({name: (next(one for one in action.option_strings if one[1] == '-'), action.nargs) for name, action in told.items()}))
"""


@pytest.fixture(scope="module")
def options():
    """By its spelling, an option's long name and how many values it takes."""
    builds = sorted(BUILDS.glob("*/build.json"))
    if not builds:
        pytest.skip("there is no engine yet: make demo installs it")
    asked = [builds[-1].with_name("venv") / "bin/python", "-c", ASK]
    return json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def test_a_whole_name_is_itself(options):
    assert {name: cmdline.long_name(name) for name in options if name.startswith("--")} == {
        name: name[2:] for name in options if name.startswith("--")
    }


def test_a_beginning_is_what_vllm_takes_it_for(options):
    longs = [name for name in options if name.startswith("--")]
    begun = {flag[:end]: flag for flag in longs if flag[2:] in cmdline.KNOWN for end in range(3, len(flag))}
    unique = {
        begin: flag for begin, flag in begun.items() if [name for name in longs if name.startswith(begin)] == [flag]
    }
    assert {begin: cmdline.long_name(begin) for begin in unique} == {begin: flag[2:] for begin, flag in unique.items()}


def test_the_short_names(options):
    told = {name: long[2:] for name, (long, _nargs) in options.items() if name[1:] in cmdline.ALIASES}
    assert {name: cmdline.long_name(name) for name in told} == told


def test_which_take_several_values_and_which_none(options):
    several = {name[2:] for name, (_long, nargs) in options.items() if nargs == "+"}
    assert several <= set(cmdline.SEVERAL)
    takes = {name[2:] for name, (_long, nargs) in options.items() if name.startswith("--") and nargs != 0}
    assert [name for name in takes if cmdline.SWITCH.match(name)] == []
