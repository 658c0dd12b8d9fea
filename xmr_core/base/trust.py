"""Names of code that come in a file: imported only where the user has said so."""

import os
import sys

from xmr_core.base.errors import BadInput


def require_trusted(address: str, source: str) -> None:
    """Refuse the address 'package.module:NAME' of code that a file asks for, unless the user imported that module
    before, or the environment variable XMR_TRUST lists it (several with commas).

    Importing a module runs it, and a file from elsewhere must not choose what runs. source: the file, for messages.

    >>> require_trusted("my_module:SPEC", "model.safetensors")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: model.safetensors asks for the code my_module:SPEC. If you trust it, ...
    """
    module = str(address).partition(":")[0]
    if ":" in str(address) and module not in sys.modules and module not in os.environ.get("XMR_TRUST", "").split(","):
        raise BadInput(
            f"{source} asks for the code {address}. If you trust it, import {module} before, or set XMR_TRUST={module}."
        )
