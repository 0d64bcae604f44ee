"""A wall clock that jumps, for programs started with its environment; all other clocks go on as they are.

Knows a C compiler and LD_PRELOAD; nothing of the programs.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

DAY = 86_400
_SHIM = Path(__file__).with_name("clock_shim.c")
_SECONDS = struct.Struct("=q")


class JumpingClock:
    """Compiles the shim into `directory`; `environment` puts a program on this clock.

    Raises:
        RuntimeError: there is no C compiler, or it cannot compile this.
    """

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise RuntimeError("a clock that jumps needs cc (apt-get install gcc libc6-dev)")
        library = directory / "clock.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SHIM), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"a clock that jumps cannot be compiled: {done.stderr}")
        path = directory / "clock"
        path.write_bytes(_SECONDS.pack(0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SECONDS.size)
        self.environment = {"LD_PRELOAD": str(library), "PALLAS_TEST_CLOCK": str(path)}

    @property
    def offset(self) -> int:
        """Seconds by which the clock is ahead of the machine's."""
        return int(_SECONDS.unpack_from(self._memory)[0])

    @offset.setter
    def offset(self, seconds: int) -> None:
        _SECONDS.pack_into(self._memory, 0, seconds)

    def close(self) -> None:
        """Let go of the file; programs keep the offset that is in it."""
        self._memory.close()
