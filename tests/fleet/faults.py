"""What can befall a run, as data: docs/reliability.md is rendered from it (python tests/fleet/faults.py), and each row is a test.

`says` is a part of what the operator reads, … standing for anything and | for "or", and empty where the run goes on to a good end by itself. The tests of
test_faults.py read it from here and hold it against what was really said.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

CLONE = Path(__file__).parents[2]
PAGE = CLONE / "docs/reliability.md"
HERE = "tests/fleet/test_faults.py"


@dataclasses.dataclass(frozen=True)
class Fault:
    """what befalls, what is said, how it ends when it is run again; test: the one that proves it."""

    id: str
    what: str
    says: str
    again: str
    test: str


def _host(name: str, what: str, says: str, again: str) -> Fault:
    return Fault(name, what, says, again, f"{HERE}::test_host[{name}]")


def _serving(name: str, what: str, says: str, again: str) -> Fault:
    return Fault(name, what, says, again, f"{HERE}::test_serving[{name}]")


def _meanwhile(name: str, what: str, says: str, again: str) -> Fault:
    return Fault(name, what, says, again, f"{HERE}::test_meanwhile[{name}]")


def _engine(name: str, what: str, says: str, again: str) -> Fault:
    return Fault(name, what, says, again, f"{HERE}::test_engine[{name}]")


LOST = "Failed to connect to the host via ssh | Make sure this host can be reached over ssh"
DONE = "is done from there on"
STAGES = {
    "host": "the host is prepared",
    "models": "the models are looked for",
    "build": "the build is proven",
    "drafter": "the drafter is mended",
    "release": "the release is written",
    "start": "the server is started",
    "wait": "it is waited for",
    "verify": "it is measured",
}
SERVES_ON = "what served before serves on meanwhile"

SECTIONS: dict[str, tuple[Fault, ...]] = {
    "A host as it is found": (
        _host(
            "no-such-name",
            "The inventory names a host that nobody knows",
            "Could not resolve hostname",
            "the name put right, it is deployed",
        ),
        _host("no-such-address", "Its address is nobody's", LOST, "the address put right, it is deployed"),
        _host(
            "no-python",
            "It has no Python",
            "'/usr/bin/python3' was not found",
            "with python3 installed, or ansible_python_interpreter set, it is deployed",
        ),
        _host(
            "no-sudo",
            "It has no sudo, and become is asked for",
            "sudo: not found",
            "with sudo, or a connection as root, it is deployed",
        ),
        _host(
            "sudo-wants-a-password",
            "sudo wants a password",
            "Missing sudo password",
            "with --ask-become-pass, or a rule of sudo, it is deployed",
        ),
        _host(
            "not-root",
            "The connection is no root's, and no become is asked for",
            "There is no user vllm … none could be made: … Connect as root (ansible_become)",
            "as root it is deployed",
        ),
        _host(
            "no-such-user",
            "vllm_user is not there and must not be made",
            "There is no user nobody-knows … vllm_host_create_user is false. Make the user, or name another",
            "with a user it is deployed",
        ),
        _host(
            "home-read-only",
            "vllm_home is on a disk mounted read-only",
            "/opt/vllm can't be had … Read-only file system … name another place by vllm_home",
            "mounted for writing, it is deployed",
        ),
        _host(
            "home-is-a-file",
            "vllm_home is a file",
            "/opt/vllm can't be had … already exists as a file",
            "with that moved away it is deployed",
        ),
        _host("home-is-a-link", "vllm_home is a link to another disk", "", "nothing is left to do"),
        _host(
            "home-full",
            "The disk of vllm_home is full",
            "/opt/vllm/builds … No space left on device",
            "with space it is deployed",
        ),
        _host(
            "home-of-the-connection-read-only",
            "The home of who connects is read-only",
            "Failed to create temporary directory … Consider changing the remote tmp path",
            "with ansible_remote_tmp elsewhere, or a home that can be written to, it is deployed",
        ),
        _host("tmp-noexec", "/tmp, /var/tmp and /dev/shm are mounted noexec", "", "nothing is left to do"),
        _host("other-locale", "It speaks another locale, one that is not even installed", "", "nothing is left to do"),
        _host("umask", "Its root makes files that nobody else may read (umask 077)", "", "nothing is left to do"),
        _host("clock-behind", "Its clock is a year behind", "", "nothing is left to do"),
    ),
    "Models and drafter": (
        _host(
            "model-gone",
            "The directory of the target is not there",
            "There is no model at /srv/models/target … Set vllm_models_target.path",
            "with the model there it is deployed",
        ),
        _host(
            "models-closed",
            "The server's user may not read the models",
            "/srv/models/target can't be read: Permission denied. Open it to that user (chmod a+rX)",
            "opened, they are served",
        ),
        _host(
            "target-truncated",
            "The target's config.json is cut short",
            "target/config.json is no JSON, or cut short … Fetch it again",
            "fetched again, it is deployed",
        ),
        _host(
            "drafter-truncated",
            "The drafter's config.json is cut short",
            "drafter/config.json is no JSON, or cut short … at line … fetch it again",
            "mended, it is deployed",
        ),
        _meanwhile(
            "drafter-truncated-meanwhile",
            "Somebody truncates the drafter's config.json while the run is under way",
            "drafter/config.json is no JSON, or cut short … at line … fetch it again",
            "mended, it is deployed",
        ),
        _host(
            "weights-truncated",
            "The drafter's weights are cut short",
            "model.safetensors is broken or cut short … Fetch it again",
            "fetched again, it is deployed",
        ),
        _meanwhile(
            "weights-gone-meanwhile",
            "The drafter's weights disappear while the run is under way",
            "model.safetensors can't be read, since … can't",
            "put back, it is deployed",
        ),
        _host(
            "overlays-is-a-file",
            "A file lies in the place of overlays/",
            "/opt/vllm/overlays: … move it away",
            "moved away, it is deployed",
        ),
        _host(
            "overlays-dangling",
            "overlays/ is a link to nowhere",
            "/opt/vllm/overlays: … move it away",
            "moved away, it is deployed",
        ),
        _host(
            "overlays-full",
            "The disk of the overlays is full",
            "/opt/vllm/overlays … No space left on device. Free some space",
            "with space it is deployed",
        ),
        _host(
            "overlays-without-inodes",
            "It has no inodes left",
            "/opt/vllm/overlays … No space left on device. Free some space on its disk, or inodes",
            "with inodes it is deployed",
        ),
        _serving(
            "overlay-truncated",
            "Somebody truncates the config.json of an overlay in use",
            "",
            "nothing is left to do: it was written anew",
        ),
        _serving(
            "overlay-link-gone",
            "Somebody removes a link of an overlay in use",
            "",
            "nothing is left to do: it was laid anew",
        ),
        Fault(
            "fetch-controller-killed",
            "The controller is killed while a model is fetched",
            "",
            "the fetch went on, and is joined",
            "tests/fleet/test_models.py::test_a_killed_play_does_not_end_a_fetch",
        ),
        Fault(
            "fetch-cut",
            "The cable is out while a model is fetched",
            "",
            "the run goes on by itself",
            "tests/fleet/test_models.py::test_a_cable_that_is_out_for_a_while_ends_neither",
        ),
        Fault(
            "fetch-full",
            "The disk fills up while a model is fetched",
            "models is full. Free some space",
            "with space, what had come is kept and the rest comes",
            "tests/fleet/test_models.py::test_a_disk_that_fills_up_meanwhile_is_named_and_what_came_is_kept",
        ),
        Fault(
            "fetch-killed",
            "The fetch itself is killed",
            "",
            "it is gone on with",
            "tests/unit/models/test_hf_snapshot.py::test_a_killed_fetch_is_gone_on_with",
        ),
        Fault(
            "byte-flipped",
            "A byte of a model flips on the disk",
            "",
            "vllm_models_verify=full finds it, and that file comes anew",
            "tests/fleet/test_models.py::test_a_flipped_byte_of_one_comes_from_its_neighbour",
        ),
        Fault(
            "site-seed-fails",
            "The one that fetches for its site fails",
            "does not have it; see there",
            "it is fetched once the cause is mended",
            "tests/fleet/test_models.py::test_the_others_are_told_when_the_one_that_fetches_fails",
        ),
    ),
    "Build": (
        *(
            Fault(
                f"build-{victim}",
                f"{what} while it compiles",
                says,
                again,
                f"tests/fleet/test_build_interrupted.py::test_the_next_run_ends_with_a_whole_build[{victim}]",
            )
            for victim, what, says, again in (
                ("play", "The controller is killed", "the run just ends", "the installer went on, and is joined"),
                ("installer", "The installer is killed", "was killed by signal 9", "it is built anew"),
                ("connection", "The cable is out", "", "the run goes on by itself"),
                ("host", "The host loses its power", LOST, "it is built anew"),
            )
        ),
        Fault(
            "build-full",
            "The disk is full while it builds",
            "The disk is full",
            "with space it is built; no half build is left",
            "tests/unit/build/test_installer.py::test_a_full_disk",
        ),
        Fault(
            "build-twice",
            "Two runs build the same at once",
            "",
            "one builds, the other waits for it",
            "tests/unit/build/test_installer.py::test_two_at_once_make_one_build",
        ),
        _serving(
            "stamp-truncated",
            "The stamp of a build is cut short",
            "",
            "nothing is left to do: the build was proven anew",
        ),
        _serving(
            "program-gone",
            "The venv of a build is gone",
            "Set vllm_build_venv to a venv that holds vLLM",
            "with the venv there it serves",
        ),
        _meanwhile(
            "program-gone-meanwhile",
            "The venv disappears while the run is under way",
            "There is no program /srv/double/bin/python on this host",
            "with the venv there it is deployed",
        ),
    ),
    "The connection, the power, the controller": (
        *(
            Fault(
                f"cut-{stage}",
                f"The cable is out when {what}",
                LOST,
                f"the cable put in, the rest {DONE}",
                f"{HERE}::test_broken_off[cut-{stage}]",
            )
            for stage, what in STAGES.items()
        ),
        *(
            Fault(
                f"power-{stage}",
                f"The host loses its power when {what}",
                LOST,
                f"switched on, the rest {DONE}",
                f"{HERE}::test_broken_off[power-{stage}]",
            )
            for stage, what in STAGES.items()
        ),
        *(
            Fault(
                f"controller-{stage}",
                f"The controller is killed when {what}",
                "the run just ends",
                f"the rest {DONE}",
                f"{HERE}::test_controller_killed[{stage}]",
            )
            for stage, what in STAGES.items()
        ),
        *(
            Fault(
                f"wait-{ends.replace(' ', '-')}",
                f"The connection is lost for 20 s within a wait, which ends {ends}",
                "",
                "the run goes on by itself, and says that the connection was lost",
                f"tests/fleet/test_log_wait_reconnect.py::test_a_lost_connection_costs_a_slice_and_not_the_wait[{ends}]",
            )
            for ends in ("while cut off", "afterwards")
        ),
        *(
            Fault(
                f"rollout-{how}",
                f"A rollout is ended by {what}",
                "the report says unfinished, and by host how far it came",
                "all hosts serve the new release",
                f"tests/fleet/test_rollout.py::test_what_was_interrupted_is_run_again[{name}]",
            )
            for how, what, name in (
                ("interrupted", "Ctrl-C", "Ctrl-C"),
                ("killed", "a controller that is killed", "killed controller"),
            )
        ),
        Fault(
            "rollout-lost",
            "A host of a rollout's batch can't be reached",
            "unreachable",
            "no later batch began; with the host back all are served",
            "tests/fleet/test_rollout.py::test_no_batch_follows_one_that_lost_a_host",
        ),
        _meanwhile(
            "host-frozen-meanwhile",
            "The host hangs: it takes connections and answers nothing",
            LOST,
            f"when it answers again, the rest {DONE}",
        ),
        _serving(
            "host-off-and-on",
            "The host was switched off and on between two runs, and systemd does not run it",
            "",
            "nothing is left to do: the server was started",
        ),
        Fault(
            "boot",
            "The host was booted between two runs, and systemd runs it",
            "",
            "the server came back by itself",
            "tests/fleet/test_serve_playbooks.py::test_after_a_boot_it_is_back[systemd]",
        ),
        Fault(
            "two-controllers",
            "Two controllers do the same at the same time",
            "",
            "both end well, and one server runs",
            f"{HERE}::test_two_controllers_that_want_the_same",
        ),
        Fault(
            "two-wishes",
            "Two controllers want different releases of one instance",
            "What runs is … and not … another run, or a person, works on this instance. See to it that one does",
            "the one that is run again has its own",
            f"{HERE}::test_two_controllers_that_want_different_releases",
        ),
        Fault(
            "report-full",
            "The disk of the reports is full on the controller",
            "There will be no report of this run: … No space left on device. Free some space",
            "the hosts were deployed all the same; with space there is a report",
            f"{HERE}::test_a_full_disk_of_the_controller",
        ),
    ),
    "Release and start": (
        _host(
            "releases-is-a-file",
            "A file lies in the place of releases/",
            "releases: … move it away",
            "moved away, it is deployed",
        ),
        _host(
            "release-full",
            "The disk of the releases is full",
            "The release could not be written. … No space left on device. Free some space",
            "with space it is deployed",
        ),
        _host(
            "cache-is-a-dangling-link",
            "The server's cache is a link to nowhere",
            "cache/vllm: … move it away",
            "moved away, it is deployed",
        ),
        _host(
            "current-is-a-directory",
            "`current` is a directory",
            "current is no link, though only one that points at a release belongs there: move it away",
            "moved away, it is deployed",
        ),
        _host(
            "log-is-a-file",
            "A file lies in the place of log/",
            "/log: A file, or a link … move it away. Nothing was stopped or started.",
            "moved away, it is deployed",
        ),
        _host(
            "log-full",
            "The disk of the log is full",
            "log is full: it has 0 bytes free. Free some space on it. Nothing was stopped or started.",
            "with space it is started",
        ),
        _host(
            "run-full",
            "The disk of the pid file is full",
            "run is full: it has 0 bytes free. Free some space on it. Nothing was stopped or started.",
            "with space it is started",
        ),
        _host(
            "run-read-only",
            "It is mounted read-only",
            "run: Read-only file system. Mount its disk for writing … Nothing was stopped or started.",
            "mounted for writing, it is started",
        ),
        _meanwhile(
            "disk-read-only-meanwhile",
            "The kernel remounts the disk read-only while the run is under way",
            "Read-only file system. Mount its disk for writing",
            "mounted for writing, it is deployed",
        ),
        _meanwhile(
            "user-gone-meanwhile",
            "Somebody removes the server's user while the run is under way",
            "There is no user vllm on this host: let the role vllm_host make it",
            "the user is made, and the server runs",
        ),
        _meanwhile(
            "release-gone-meanwhile",
            "Somebody removes the release while the run is under way",
            "There is no … launch.py",
            "it is written anew, and the server runs",
        ),
        _meanwhile(
            "port-taken-meanwhile",
            "A stranger takes the port while the run is under way",
            "Port 18500 on 127.0.0.1 is occupied by pid … Stop that process or choose another port",
            "with the port free it is started",
        ),
        Fault(
            "port-taken",
            "A stranger has the port",
            "is occupied by",
            "with the port free it is started",
            "tests/e2e/test_site.py::test_an_occupied_port_is_named_by_its_owner",
        ),
        _serving(
            "release-truncated",
            "release.json of the release in use is cut short",
            "",
            "nothing is left to do: it was written anew",
        ),
        _serving(
            "launch-script-changed",
            "Somebody edits the launch script of the release in use",
            "",
            "nothing is left to do: it was written anew",
        ),
        _serving("secrets-opened", "Somebody lets all read env.json", "", "nothing is left to do: it was closed"),
        _serving(
            "secrets-of-another",
            "env.json belongs to another user than the server's",
            "",
            "nothing is left to do: it was given back",
        ),
        _serving(
            "cache-of-another",
            "The server's cache belongs to another user",
            "",
            "nothing is left to do: it was given back",
        ),
        _serving(
            "current-dangling",
            "`current` points at nothing",
            "",
            "nothing is left to do: it points at the release again",
        ),
        _serving(
            "pid-file-truncated",
            "The pid file is cut short",
            "",
            "nothing is left to do: the server was found and started anew",
        ),
        _serving(
            "pid-file-of-another",
            "The pid in the pid file is another process's by now",
            "",
            "nothing is left to do: that process was left alone",
        ),
        _serving(
            "server-killed", "The server was killed between two runs", "", "nothing is left to do: it was started"
        ),
    ),
    "The engine": (
        _engine(
            "engine-killed-starting",
            "It is killed while it starts",
            "was killed by signal 9 (SIGKILL) … last stage: starting the engine … Remedy:",
            "it is started",
        ),
        _engine(
            "engine-killed-loading",
            "It is killed while it loads the weights",
            "was killed by signal 9 (SIGKILL) … last stage: loading the weights … Remedy:",
            "it is started",
        ),
        _engine(
            "engine-killed-compiling",
            "It is killed while it compiles",
            "was killed by signal 9 (SIGKILL) … last stage: compiling … Remedy:",
            "it is started",
        ),
        _engine(
            "engine-killed-listening",
            "It is killed when it begins to listen",
            "was killed by signal 9 (SIGKILL) … last stage: starting the HTTP server … Remedy:",
            "it is started",
        ),
        _engine(
            "engine-killed-first-token",
            "It is killed at its first token",
            "killed by signal 9 (SIGKILL) … Remedy:",
            "it is started",
        ),
        _engine(
            "engine-killed-verifying",
            "It is killed while it is measured",
            "The engine failed when it was asked. … The answer broke off … Read the server's log",
            "it is started, and measured",
        ),
        _engine(
            "engine-stopped-loading",
            "Somebody stops it while it loads",
            "was stopped, as somebody asked it to",
            "it is started",
        ),
        _engine(
            "engine-frozen-loading",
            "It hangs while it loads",
            "is not ready after 15 s: still loading the weights … Remedy:",
            "it goes on when it can; else restart.yml starts it anew",
        ),
        _engine(
            "engine-frozen-first-token",
            "It hangs at its first token",
            "The engine hangs: not one token within … s. /health gives no answer",
            "it goes on when it can; else restart.yml starts it anew",
        ),
        _engine(
            "engine-frozen-verifying",
            "It hangs while it is measured",
            "The engine hangs: not one token within … Read the last lines of the server's log and restart it",
            "it goes on when it can; else restart.yml starts it anew",
        ),
        _serving(
            "server-frozen",
            "It hangs between two runs",
            "127.0.0.1:18500 does not answer. timed out … read the server's log",
            "it goes on when it can; else restart.yml starts it anew",
        ),
        Fault(
            "dies-unseen",
            "It dies under systemd before anybody looks",
            "Cause:",
            "it is started once the cause is mended",
            "tests/fleet/test_log_wait_unit.py::test_dead_before_anybody_looked",
        ),
        *(
            Fault(
                f"real-{victim}-killed-loading",
                f"The real vLLM's {victim} is killed while it loads",
                "killed",
                "it is started",
                f"tests/e2e/test_site.py::test_killed_while_loading_is_said_at_once[{victim}]",
            )
            for victim in ("server", "engine")
        ),
        Fault(
            "real-engine-killed-verifying",
            "The real vLLM's engine is killed while it is measured",
            "is named as the cause",
            "it is started, and measured",
            "tests/e2e/test_acceptance_probe.py::test_an_engine_killed_under_way",
        ),
        Fault(
            "real-engine-hangs",
            "The real vLLM hangs though /health says 200",
            "is named as the cause",
            "restart.yml starts it anew",
            "tests/e2e/test_acceptance_probe.py::test_a_hang_is_found_though_health_says_200",
        ),
        Fault(
            "real-engine-dies-serving",
            "The real vLLM's engine dies while it serves, and systemd runs it",
            "",
            "systemd started it again",
            "tests/fleet/test_serve_playbooks.py::test_an_engine_that_dies_takes_the_server_along_and_is_started_again[systemd]",
        ),
        Fault(
            "real-server-dies-serving",
            "The real vLLM's server is killed and leaves its engine behind, without systemd",
            "had left pid … behind",
            "what was left is ended, and the server started",
            "tests/fleet/test_serve_playbooks.py::test_what_a_killed_server_left_is_named_and_ended_by_the_next_start[process]",
        ),
        Fault(
            "real-stopped-loading",
            "The real vLLM is stopped while another run waits for it",
            "was stopped",
            "it is started",
            "tests/fleet/test_serve_playbooks.py::test_stopped_while_it_loads[systemd]",
        ),
    ),
    "Log and measurement": (
        _serving("log-gone", "Somebody removes the log of a server that runs", "", "nothing is left to do"),
        _meanwhile(
            "clock-jumps-meanwhile",
            "The host's clock jumps by a day while the server is waited for",
            "",
            "nothing is left to do",
        ),
        _meanwhile(
            "evidence-full-meanwhile",
            "The disk is full when the evidence is written",
            "evidence.json … No space left on device",
            "with space it is measured, and the evidence written",
        ),
        _serving(
            "evidence-truncated",
            "evidence.json is cut short",
            "",
            "nothing is left to do: it was measured again, and written",
        ),
    ),
}
FAULTS = tuple(fault for faults in SECTIONS.values() for fault in faults)
BY_ID = {fault.id: fault for fault in FAULTS}


def matches(says: str, said: str) -> bool:
    ways = (".*".join(re.escape(part.strip()) for part in way.split("…")) for way in says.split(" | "))
    return any(re.search(way, said) for way in ways)


INTRODUCTION = """\
<!-- Rendered from tests/fleet/faults.py: python tests/fleet/faults.py -->
# Faults and recovery

A host loses its power, a disk fills up, somebody kills the controller. For each of these faults there is a test, which has it befall a
real host while the playbooks run and then runs them again. What the collection promises, and what the tests look at, is the same everywhere:

- **Nothing is lost.** No model, log, release or config that was there is gone or changed, and no half-written file stays. What served before
  serves on until nothing speaks against the new release.
- **The message names the cause and what to do.** In the tables, … stands for what differs from host to host. Before our first module runs,
  the words are Ansible's own.
- **Running it again ends well.** What was done is not done again, what was half done is done anew, and a job that went on is joined.

`make faults` runs them, on a machine with root and systemd-nspawn.

A connection that is lost without a word, as when a cable is out, is noticed after 30 s, since `ansible.cfg` of the clone has SSH ask the host
for a sign of life. Without that Ansible waits for a quarter of an hour or more. Have the same in your own `ansible.cfg`, and in AWX in the
project's:

```ini
[ssh_connection]
ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=10 -o ServerAliveCountMax=3
```
"""
TITLES = ("Fault", "Message", "Run again", "Test")


def render() -> str:
    parts = [INTRODUCTION]
    for title, faults in SECTIONS.items():
        rows = [
            (
                f.what,
                "`{}`".format(f.says.replace(" | ", "` or `")) if f.says else "nothing: it ends well",
                f.again,
                f"`{f.id}`",
            )
            for f in faults
        ]
        table = [TITLES, ("---",) * len(TITLES), *rows]
        parts.append(f"\n## {title}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in table))
    files = sorted({f.test.partition("::")[0] for f in FAULTS})
    parts.append(
        f"\n{len(FAULTS)} faults. The last column is the row's name in `tests/fleet/faults.py`, which says what test proves it. "
        "The tests are in "
        + ", ".join(f"[{name}](../{name})" for name in files)
        + ". How the faults are made is told in [tests/fleet](../tests/fleet/README.md).\n"
    )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
