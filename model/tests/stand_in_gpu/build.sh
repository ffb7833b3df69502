#!/bin/sh
# Builds the stand-in GPU into a folder, unless it is there: build.sh FOLDER. Put the folder in front of LD_LIBRARY_PATH, or give it to the program's loader.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
compiler=${CXX:-g++}
mkdir -p "$1"
# Tests that run side by side may all find that it is missing: one of them builds.
exec 9>"$1/lock"
! command -v flock >/dev/null || flock 9
made_of=$({ "$compiler" --version && cat "$here"/*.cpp "$here"/*.h "$here/build.sh"; } | cksum)
[ ! -f "$1/made_of" ] || [ "$(cat "$1/made_of")" != "$made_of" ] || exit 0
build() {
  "$compiler" -std=c++17 -O2 -Wall -Wextra -fPIC -shared -Wl,-soname,"$2" -o "$folder/$2.$$" "$here/$1" $3
  mv "$folder/$2.$$" "$folder/$2"
}
folder=$1
rm -f "$folder/made_of"
cp "$here/cuda_emu.h" "$folder/cuda_emu.h.$$"
mv "$folder/cuda_emu.h.$$" "$folder/cuda_emu.h"
build libcuda.cpp libcuda.so.1 -ldl
build libnvrtc.cpp libnvrtc.so.13 -ldl
build libnccl.cpp libnccl.so.2 '-ldl -lrt -pthread'
build libcudnn.cpp libcudnn.so.9 '-O3 -march=native -ldl'
echo "$made_of" >"$folder/made_of"
