#!/bin/sh
# Says what this machine lacks, by the name of the system package that brings it.
PYTHON=${PYTHON:-python3}
lacks=0
lack() {
  echo "This machine lacks $1. On Debian and Ubuntu: apt-get install $2" >&2
  lacks=1
}
if ! command -v "$PYTHON" > /dev/null; then
  lack "$PYTHON" "python3 python3-venv"
elif ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "$PYTHON is $("$PYTHON" --version), but Python 3.11 or newer is needed. Name another: make PYTHON=python3.12 ..." >&2
  lacks=1
elif ! "$PYTHON" -c 'import ensurepip, venv' 2> /dev/null; then
  lack "the module ensurepip of $PYTHON" "python3-venv"
fi
/sbin/ldconfig -p 2> /dev/null | grep -q 'libnuma\.so\.1' || lack "libnuma.so.1, which vLLM on the CPU loads" "libnuma1"
exit $lacks
