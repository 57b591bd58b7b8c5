"""Runs a program on a kernel that does not steer datagrams by programs: SO_ATTACH_REUSEPORT_CBPF is refused. Usage: unsteered.py WORDS..."""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOPROTOOPT
# The number of setsockopt, and where it finds level and option (the low halves of its second and third argument).
SETSOCKOPT = {"x86_64": 54, "aarch64": 208}[os.uname().machine]
NUMBER, LEVEL, OPTION = 0, 24, 32
SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF = 1, 51
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06

# What each is followed by: further instructions to go on after if it is not equal.
FILTER = [
    (LOAD, 0, NUMBER),
    (EQUALS, 5, SETSOCKOPT),
    (LOAD, 0, LEVEL),
    (EQUALS, 3, SOL_SOCKET),
    (LOAD, 0, OPTION),
    (EQUALS, 1, SO_ATTACH_REUSEPORT_CBPF),
    (RETURN, 0, REFUSE),
    (RETURN, 0, ALLOW),
]


def main():
    code = b"".join(struct.pack("HBBI", kind, 0, otherwise, value) for kind, otherwise, value in FILTER)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(FILTER), ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)
    for words in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0)):
        if libc.prctl(*words) != 0:
            sys.exit(f"no filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
