"""Runs a program on a serial console, for tests: cable.py EVERY SEED COMMAND...

The program has a pseudo-terminal as its console, in the terminal's usual mode, with an echo. Another
one is the serial line of the engineer's machine. This script is the cable between them. It prints
the path of that line first. About one of EVERY bytes of the program gets lost or changed; 0: none.
The end of the standard input ends the program.
"""
import os
import pty
import random
import select
import subprocess
import sys
import tty

every, seed, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
chance = random.Random(seed)
near, line = pty.openpty()
far, console = pty.openpty()
tty.setraw(line)
program = subprocess.Popen(command, stdin=console, stdout=console, stderr=console,
                           start_new_session=True)
os.close(console)
print(os.ttyname(line), flush=True)


def worn(data):
    out = bytearray()
    for byte in data:
        if every and chance.randrange(every) == 0:
            if chance.random() < 0.5:
                out.append(chance.randrange(256))
        else:
            out.append(byte)
    return bytes(out)


try:
    while True:
        for ready in select.select([near, far, 0], [], [])[0]:
            data = os.read(ready, 4096)
            if not data:
                sys.exit(0)
            if ready == far:
                os.write(near, worn(data))
            elif ready == near:
                os.write(far, data)
except OSError:                                 # the program has ended
    pass
finally:
    program.kill()
    program.wait()
