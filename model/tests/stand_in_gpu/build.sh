#!/bin/sh
# Builds the stand-in GPU into a folder: build.sh FOLDER. Put the folder in front of LD_LIBRARY_PATH, or give it to the program's loader.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
# Tests that run side by side may all find that it is missing.
cp "$here/cuda_emu.h" "$1/cuda_emu.h.$$"
mv "$1/cuda_emu.h.$$" "$1/cuda_emu.h"
build() {
  "${CXX:-g++}" -std=c++17 -O2 -Wall -Wextra -fPIC -shared -Wl,-soname,"$2" -o "$folder/$2.$$" "$here/$1" $3
  mv "$folder/$2.$$" "$folder/$2"
}
folder=$1
build libcuda.cpp libcuda.so.1 -ldl
build libnvrtc.cpp libnvrtc.so.13 -ldl
build libnccl.cpp libnccl.so.2 '-ldl -lrt -pthread'
build libcudnn.cpp libcudnn.so.9 '-O3 -march=native -ldl'
