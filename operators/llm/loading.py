"""litellm, imported at first use and kept quiet.

The import takes seconds, so whoever has an event loop calls `load_litellm` in a thread first. What
litellm would do of its own accord is switched off before: fetching its price list from the
network, reading `.env` into the environment that other processes inherit, printing advice.
"""

from __future__ import annotations

import logging
import os
import warnings
from types import ModuleType

__all__ = ["load_litellm"]

_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_OFFLINE_MODE": "true",
    # Any other mode copies `.env` into the environment while litellm is imported.
    "LITELLM_MODE": "PRODUCTION",
}
# Warnings that its data models bring about, at calls as well as at the import.
_WARNINGS = (
    ".*`ReadOnly` qualifier",
    ".*conflict with protected namespace",
    ".*Accessing the .* attribute on the instance is deprecated",
    "Pydantic serializer warnings",
)
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


def load_litellm() -> ModuleType:
    """Return litellm, with its own retries, reports and network look-ups off."""
    os.environ.update(_SETTINGS)
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.num_retries = 0
    for name in _LOGGERS:
        # What it has to say comes as an exception too; in its log it would come unredacted.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    module: ModuleType = litellm
    return module
