"""The published JSON Schema of the package language, generated from the models: ``python -m runner.admission.schema``."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

from runner.admission.package import Package

NAME = "package.schema.json"


def package_schema() -> dict[str, Any]:
    """The schema that editors complete packages by. It describes shape; admission checks meaning too."""
    body = Package.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Runner workflow package", **body}


def schema_text() -> str:
    """The exact text of the shipped file."""
    return json.dumps(package_schema(), indent=2, sort_keys=True) + "\n"


def shipped_text() -> str:
    """What is shipped with this Runner."""
    return resources.files("runner.admission").joinpath(NAME).read_text("utf-8")


def main() -> None:
    """Writes the file beside this module."""
    Path(__file__).with_name(NAME).write_text(schema_text(), "utf-8")


if __name__ == "__main__":
    main()
