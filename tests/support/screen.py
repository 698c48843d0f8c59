"""screen.py - a program on a terminal: what its screen shows, and keys to type.

    with Screen("weir", "top", rows=24, columns=80) as s:
        s.waits_for("POLICY")
        s.type("j")

The screen understands what weir sends, and fails at anything else, at a line that is too long, and
at one that would scroll.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from weir_server import PATIENCE

CONTROL = re.compile(rb"\033\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, *words, rows=24, columns=80, env=None):
        self.rows, self.columns, self.is_alternate = rows, columns, False
        self.terminal, self.other_end = pty.openpty()
        self.clear()
        self.raw, self.rest, self.colours, self.reverse = b"", b"", set(), [""] * rows
        self.set_size()
        self.modes = termios.tcgetattr(self.terminal)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_") and name != "NO_COLOR"}
        self.process = subprocess.Popen([str(w) for w in words], stdin=self.other_end, stdout=self.other_end, stderr=self.other_end,
                                        env={**clean, "TERM": "xterm", **(env or {})}, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.terminal)
        os.close(self.other_end)

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.at = [0, 0]
        self.is_reverse = False

    def set_size(self):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def resize(self, rows, columns):
        seen = None
        while seen != len(self.raw):  # what is on its way is for the old size
            seen = len(self.raw)
            self.read(0.3)
        self.rows, self.columns = rows, columns
        self.clear()
        self.reverse = [""] * rows
        self.set_size()  # which sends SIGWINCH

    # ---- what the program writes -------------------------------------------------------------------

    def control(self, mark, numbers, letter):
        row, column = self.at
        if mark:
            assert letter in "hl", letter
            if numbers == "1049":
                self.is_alternate = letter == "h"
        elif letter == "H":
            given = [int(n) for n in numbers.split(";")] if numbers else [1, 1]
            self.at = [given[0] - 1, given[1] - 1]
            assert self.at[0] < self.rows, f"line {given[0]} of {self.rows}"
        elif letter == "K":
            self.cells[row][column:] = [" "] * (self.columns - column)
        elif letter == "J":
            if numbers == "2":
                self.clear()
            else:
                self.cells[row][column:] = [" "] * (self.columns - column)
                for r in range(row + 1, self.rows):
                    self.cells[r] = [" "] * self.columns
        elif letter == "m":
            self.is_reverse = numbers == "7" or (self.is_reverse and numbers not in ("", "0"))
            if numbers not in ("", "0", "7"):
                self.colours.add(numbers)
        else:
            raise AssertionError(f"the terminal does not know {letter}")

    def put(self, text):
        for c in text:
            if c == "\r":
                self.at[1] = 0
            elif c == "\n":
                self.at[0] += 1
                assert self.at[0] < self.rows, "the screen would scroll"
            else:
                assert c >= " ", f"control character {c!r}"
                assert self.at[1] < self.columns, f"a line is longer than {self.columns}: {self.text()}"
                self.cells[self.at[0]][self.at[1]] = c
                if self.is_reverse and self.at[1] == 0:
                    self.selected_row = self.at[0]
                self.at[1] += 1

    def feed(self, data):
        self.raw += data
        data, self.rest = self.rest + data, b""
        if not self.is_alternate and b"\033[?1049h" not in data:
            return
        while data:
            found = CONTROL.search(data)
            plain = data[:found.start()] if found else data
            if not found and b"\033" in plain:
                cut = plain.index(b"\033")
                plain, self.rest = plain[:cut], plain[cut:]
            try:
                self.put(plain.decode())
            except UnicodeDecodeError:  # a character was cut
                self.rest = plain[-3:] + self.rest
                self.put(plain[:-3].decode("utf-8", "ignore"))
            if not found:
                return
            self.control(found[1].decode(), found[2].decode(), found[3].decode())
            data = data[found.end():]
            if not self.is_alternate:
                return

    def read(self, seconds):
        end = time.monotonic() + seconds
        while select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
            try:
                self.feed(os.read(self.terminal, 65536))
            except OSError:
                return

    # ---- for tests ---------------------------------------------------------------------------------

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def selected(self):
        return self.lines()[self.selected_row]

    def waits_for(self, wanted, pattern=False):
        """Until the screen shows it; the time is short of what must happen at once."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shown = self.text()
            if callable(wanted):
                if wanted():
                    return shown
            elif re.search(wanted, shown, re.M) if pattern else wanted in shown:
                return shown
            self.read(0.05)
        raise AssertionError(f"{wanted!r} does not appear:\n{self.text()}")

    def type(self, *keys):
        for key in keys:
            os.write(self.terminal, key if isinstance(key, bytes) else key.encode())

    def ends(self):
        """The exit status; the terminal must be as it was."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        self.read(0.1)
        assert self.process.poll() is not None, "it does not end"
        assert not self.is_alternate and self.raw.endswith(b"\033[?25h\033[?1049l"), self.raw[-60:]
        assert termios.tcgetattr(self.terminal) == self.modes, "the terminal is not as it was"
        return self.process.returncode

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)
