"""What is refused: a call, the class of its error, and the words that the error names.

The words are arguments, values and remedies, not the sentence around them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def assert_refused(
    call: Callable[[], Any], words: str, error: type[Exception] = ValueError
) -> None:
    """``call`` raises ``error``, whose text has every one of ``words``, separated by spaces."""
    with pytest.raises(error) as caught:
        call()
    missing = [word for word in words.split() if word not in str(caught.value)]
    assert not missing, f"the error does not name {missing}: {caught.value}"
