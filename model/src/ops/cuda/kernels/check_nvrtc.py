#!/usr/bin/env python3
"""Compiles every kernel file for each architecture with NVRTC, down to machine code, and prints registers and spills.

usage: check_nvrtc.py LIBNVRTC [ARCHITECTURE ...]   (default: sm_80 sm_90; no GPU is needed)
"""
import concurrent.futures
import ctypes
import os
import pathlib
import re
import sys


def main():
    nvrtc = ctypes.CDLL(sys.argv[1])
    architectures = sys.argv[2:] or ["sm_80", "sm_90"]
    folder = pathlib.Path(__file__).parent
    common = (folder / "common.cuh").read_text()
    work = [(file, architecture) for file in sorted(folder.glob("*.cu")) for architecture in architectures]
    # Threads are enough: ctypes lets others run while NVRTC compiles.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        results = list(threads.map(lambda item: compiled(nvrtc, common, *item), work))
    print("\n".join(line for _, lines in results for line in lines))
    sys.exit(any(status != 0 for status, _ in results))


def compiled(nvrtc, common, file, architecture):
    """NVRTC's status, and what is said of the file."""
    source = common + f'\n#line 1 "{file.name}"\n' + file.read_text()
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"-Xptxas", b"-v"]
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.name.encode(), 0, None, None)
    assert status == 0, f"nvrtcCreateProgram: {status}"
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    size = ctypes.c_size_t()
    if status == 0:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    properties = re.findall(r"Function properties for (\S+)\s+ptxas\s+\.\s+(.*)", log)
    spills = [(name, line) for name, line in properties if " 0 bytes spill stores" not in line]
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", log)]
    lines = [
        f"{file.name} {architecture}: {'ok' if status == 0 else 'FAILED'}, {size.value} bytes of machine code, "
        f"at most {max(registers, default=0)} registers, {len(spills)} kernels spill"
    ]
    if status or "warning" in log:
        lines += [line for line in log.splitlines() if not re.match("ptxas (info|  )", line)]
    return status, lines + [f"  {name}: {line}" for name, line in spills]


def text(size_of, get, program):
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    get(program, buffer)
    return buffer.value.decode(errors="replace")


main()
