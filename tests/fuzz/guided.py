"""`python -m tests.fuzz.guided TARGET LIBFUZZER-ARGUMENT...`: one target under atheris, until its time is up.

A process of its own: libFuzzer ends the process that it runs in, and the broker's code is instrumented as it is
imported. Its first finding ends it, with the input in a file.
"""

import shlex
import sys
from typing import Any

import atheris

from tests.fuzz.searched import PACKAGES


def main() -> None:
    """Run; never returns."""
    with atheris.instrument_imports(include=list(PACKAGES)):
        from kafka_api.protocol import codec
        from tests.fuzz.targets import TARGETS

    compile_decoder = codec.compile_decoder

    def instrumented(*arguments: Any, **options: Any) -> Any:
        # Generated when first used, and so met by no import.
        return atheris.instrument_func(compile_decoder(*arguments, **options))

    codec.compile_decoder = instrumented
    target = TARGETS[sys.argv[1]]
    # Codecs are compiled and methods gathered once, whoever comes first.
    for sample in target.samples():
        target(sample)
    # A merge starts itself again, through a shell.
    command = shlex.join([sys.executable, "-m", "tests.fuzz.guided", target.name])
    atheris.Setup([command, *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
