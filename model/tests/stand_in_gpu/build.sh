#!/bin/sh
# Builds the stand-in GPU below a folder, unless it is there, and prints where: build.sh FOLDER. Put that in front of LD_LIBRARY_PATH, or give it to the
# program's loader.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
compiler=${CXX:-g++}
mkdir -p "$1"
# What other sources, another compiler or another processor made has a folder of its own: a program that runs finds its libraries as they were. A folder is
# whole if it is there.
made_of=$({ "$compiler" -march=native -dM -E -x c++ /dev/null && cat "$here"/*.cpp "$here"/*.h "$here/build.sh"; } | cksum | tr ' ' -)
folder=$(cd "$1" && pwd)/$made_of
# Tests that run side by side may all find that it is missing: one of them builds.
exec 9>"$1/lock"
! command -v flock >/dev/null || flock 9
build() {
  # What a compiler leaves running does not hold the lock, nor is what it says the folder.
  "$compiler" -std=c++17 -O2 -Wall -Wextra -fPIC -shared -Wl,-soname,"$2" -o "$new/$2" "$here/$1" $3 9>&- >&2
}
if [ ! -d "$folder" ]; then
  new=$folder.$$
  trap 'rm -rf "$new"' EXIT
  mkdir -p "$new"
  cp "$here/cuda_emu.h" "$new"
  build libcuda.cpp libcuda.so.1 -ldl
  build libnvrtc.cpp libnvrtc.so.13 -ldl
  build libnccl.cpp libnccl.so.2 '-ldl -lrt -pthread'
  build libcudnn.cpp libcudnn.so.9 '-O3 -march=native -ldl'
  mv "$new" "$folder"
fi
echo "$folder"
