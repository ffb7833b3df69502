# For scripts that run the program: builds it, or uses $SQUALL, and lets Open MPI run it anywhere.
# Source it in the repository's root; it sets $squall to the program's path.
[ -n "${SQUALL:-}" ] || cargo build --release -p squall
squall=$(realpath "${SQUALL:-${CARGO_TARGET_DIR:-target}/release/squall}")
# Open MPI needs these as root, with more ranks than cores, and to wait without spinning.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
