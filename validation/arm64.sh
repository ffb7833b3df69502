#!/usr/bin/env bash
# Runs the whole workflow, and convolutions against plain loops, for 64-bit ARM on another processor: the program is
# cross-compiled against Debian for ARM and run by QEMU.
# usage: validation/arm64.sh OUT
#   OUT  a folder for that Debian (1.5 GB) and a run; CARGO_TARGET_DIR as usual; existing results are reused
# Needs root, Debian or Ubuntu with apt-get, rustup, and eleven minutes on two cores.
set -euo pipefail
triple=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu qemu=qemu-aarch64
out=$(realpath -m "$1")
root=$out/debian libraries=$out/debian/usr/lib/$gnu
cd "$(dirname "$0")/.."

for tool in "$gnu-g++" debootstrap "$qemu-static"; do
  command -v "$tool" >/dev/null || missing=1
done
[ -z "${missing:-}" ] ||
  apt-get install -y -q debootstrap qemu-user-static "gcc-$gnu" "g++-$gnu"
rustup target add "$triple"

# The program restarts itself, so the kernel must know the emulator.
[ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
[ -e "/proc/sys/fs/binfmt_misc/$qemu" ] || cat "/usr/lib/binfmt.d/$qemu.conf" >/proc/sys/fs/binfmt_misc/register

if [ ! -e "$out/unpacked" ]; then
  rm -rf "$root"
  mkdir -p "$out"
  debootstrap --foreign --arch=arm64 --variant=minbase \
    --include=libdnnl-dev,libnetcdf-dev,libopenmpi-dev,openmpi-bin trixie "$root"
  # Its packages need not be configured, only unpacked.
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  # Their paths begin with `/usr`, and crates ask this machine for HDF5.
  sed -i "s#\"/usr#\"$root/usr#; s#-L/usr#-L$root/usr#g; s#-I/usr#-I$root/usr#g" "$root/usr/bin/nc-config"
  ln -sf libhdf5_serial.so "$libraries/libhdf5.so"
  touch "$out/unpacked"
fi

upper=$(tr a-z- A-Z_ <<<"$triple") lower=$(tr - _ <<<"$triple")
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$libraries/pkgconfig:$root/usr/share/pkgconfig
export NETCDF_DIR=$root/usr DNNL_DIR=$root/usr MPI_PKG_CONFIG=ompi-c
export "CC_$lower=$gnu-gcc" "CXX_$lower=$gnu-g++" "CFLAGS_$lower=--sysroot=$root" "CXXFLAGS_$lower=--sysroot=$root"
export BINDGEN_EXTRA_CLANG_ARGS="--sysroot=$root --target=$gnu"
export "CARGO_TARGET_${upper}_LINKER=$gnu-gcc"
export "CARGO_TARGET_${upper}_RUSTFLAGS=-C link-arg=--sysroot=$root -L native=$libraries -C link-arg=-Wl,-rpath-link,$libraries"
cargo build --release -p squall --features cuda,nccl --target "$triple"
squall=$(realpath "${CARGO_TARGET_DIR:-target}/$triple/release/squall")

export QEMU_LD_PREFIX=$root
run=$out/run
rm -rf "$run"
mkdir "$run"
cd "$run"
"$squall" --version
"$squall" -q simulate --out fields --grid 48x72 --days 20 --hours 12
"$squall" -q label fields --out labels
"$squall" -q stage fields --labels labels --out store
"$squall" -q train --recipe small --data store --out model --set training.steps=5
"$squall" -q infer fields --model model/best.safetensors --out masks
"$squall" -q events masks --fields fields --out events
"$squall" -q report masks:events --fields fields --out report.html
"$squall" -q bench parity --judge shapes
echo "the path and the convolutions of every kind: passed on ARM"
