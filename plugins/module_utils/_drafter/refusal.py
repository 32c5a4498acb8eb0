# Copyright: (c) 2026, the llmops.vllm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way in which a drafter, or what is said of it, is refused."""

from __future__ import annotations


class RefusedError(Exception):
    """There is nothing to judge or to write, or not with what was given. The message is one line, without a full stop."""
