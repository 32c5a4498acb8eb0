"""A host's clock, which all its processes read through a library that adds so many seconds: hosts share the machine's one clock.

What the kernel stamps by itself, as the times of files, stays as it is.
"""

from __future__ import annotations

from ansible_collections.llmops.vllm.tests.fleet.host import Host

OFFSET = "/run/clock-offset"
LIBRARY = "/usr/local/lib/clock.so"
SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  char text[32] = {0};
  int f = syscall(SYS_openat, AT_FDCWD, "/run/clock-offset", O_RDONLY | O_CLOEXEC);
  if (f < 0) return 0;
  syscall(SYS_read, f, text, sizeof text - 1);
  syscall(SYS_close, f);
  return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
  int done = syscall(SYS_clock_gettime, clock, at);
  if (done == 0 && clock == CLOCK_REALTIME) at->tv_sec += offset();
  return done;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


def shift(host: Host, seconds: int) -> None:
    """From here on its clock is so far off; what runs already notices only if it was started after the first shift."""
    host.console(
        'echo "$2" > /run/clock-offset; test -e "$1" || {'
        ' printf %s "$3" > /tmp/clock.c; cc -shared -fPIC -O -o "$1" /tmp/clock.c; echo "$1" > /etc/ld.so.preload; }',
        LIBRARY,
        str(seconds),
        SOURCE,
    )


def right(host: Host) -> None:
    host.console(f"rm -f {OFFSET}")
