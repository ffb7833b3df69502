// A stand-in for libnccl.so.2 between processes of one machine: sums and broadcasts of f32 through shared memory, in the order of rank, on the streams of the
// stand-in for libcuda. It takes device memory only. A rank that waits for others for longer than a minute ends its process.
//
// Environment: SQUALL_STAND_IN_NCCL_LOG, a file to which every process appends what it was asked for, a line each; SQUALL_STAND_IN_NCCL_ABORT, if it is set
// no communicator can be aborted.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

enum { SUCCESS = 0, UNHANDLED_CUDA = 1, SYSTEM = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { FLOAT32 = 7, SUM = 0 };

struct UniqueId {
  char internal[128];
};

namespace {

// Values of a rank that are shown to the others at once.
const size_t ROOM = 1 << 20;

struct Shared {
  std::atomic<uint32_t> arrived, round, gone;
};

struct Comm {
  int rank, ranks;
  Shared *shared;
  float *room;
  size_t bytes;

  float *of(int other) const { return room + (size_t)other * ROOM; }
  // Returns when all ranks have come here.
  void meet() const {
    const uint32_t round = shared->round.load();
    if (shared->arrived.fetch_add(1) + 1 == (uint32_t)ranks) {
      shared->arrived.store(0);
      shared->round.fetch_add(1);
      return;
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (shared->round.load() == round) {
      usleep(200);
      const bool gives_up = shared->gone.load() || std::chrono::steady_clock::now() > limit;
      if (gives_up && shared->round.load() == round) {
        fprintf(stderr, "stand-in NCCL: rank %d waits for ranks that do not come\n", rank);
        _exit(86);
      }
    }
  }
};

void log(const char *what, size_t count) {
  const char *path = getenv("SQUALL_STAND_IN_NCCL_LOG");
  if (!path || !*path) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  char line[64];
  const int length = snprintf(line, sizeof line, "%s %zu\n", what, count);
  if (file >= 0 && write(file, line, (size_t)length) < 0) perror("stand-in NCCL");
  if (file >= 0) close(file);
}

template <class F>
F driver(const char *name) {
  return (F)dlsym(RTLD_DEFAULT, name);
}

// Whether these values lie on a device.
bool on_device(const void *values, size_t count) {
  static const auto holds = driver<int (*)(uint64_t, size_t)>("squallStandInHolds");
  return holds && holds((uint64_t)(uintptr_t)values, count * sizeof(float));
}

typedef std::function<void()> Work;
void run(void *work) {
  (*(Work *)work)();
  delete (Work *)work;
}
int submit(void *stream, Work work) {
  static const auto launch = driver<int (*)(void *, void (*)(void *), void *)>("cuLaunchHostFunc");
  return launch && launch(stream, run, new Work(std::move(work))) == 0 ? SUCCESS : UNHANDLED_CUDA;
}

// What waits for the end of a group.
thread_local int depth;
thread_local std::vector<std::function<int()>> waiting;
int start(std::function<int()> call) {
  if (depth == 0) return call();
  waiting.push_back(std::move(call));
  return SUCCESS;
}

int check(const void *send, const void *receive, size_t count, int type, const Comm *comm, int root) {
  if (!comm || root < 0 || root >= comm->ranks) return INVALID_ARGUMENT;
  if (type != FLOAT32) return INVALID_ARGUMENT;
  if (on_device(send, count) && on_device(receive, count)) return SUCCESS;
  fprintf(stderr, "stand-in NCCL: %zu values are not on a device\n", count);
  return INVALID_ARGUMENT;
}

// Sums in the order of rank, in pieces, for those who want them.
void sum(const Comm *comm, const float *send, float *receive, size_t count, bool wanted) {
  for (size_t first = 0; first < count; first += ROOM) {
    const size_t some = count - first < ROOM ? count - first : ROOM;
    memcpy(comm->of(comm->rank), send + first, some * sizeof(float));
    comm->meet();
    for (size_t i = 0; wanted && i < some; i++) {
      float total = comm->of(0)[i];
      for (int rank = 1; rank < comm->ranks; rank++) total += comm->of(rank)[i];
      receive[first + i] = total;
    }
    comm->meet();
  }
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API ncclGetVersion(int *version) {
  const char *said = getenv("SQUALL_STAND_IN_NCCL");
  *version = said ? atoi(said) : 22809;
  return SUCCESS;
}
extern "C" __attribute__((visibility("default"))) const char *ncclGetErrorString(int) { return "stand-in NCCL"; }

API ncclGetUniqueId(UniqueId *id) {
  static std::atomic<unsigned> calls;
  memset(id->internal, 0, sizeof id->internal);
  const long long now = std::chrono::steady_clock::now().time_since_epoch().count();
  snprintf(id->internal, sizeof id->internal, "/squall-nccl-%d-%u-%llx", (int)getpid(), calls++, now);
  return SUCCESS;
}
API ncclCommInitRank(Comm **out, int ranks, UniqueId id, int rank) {
  if (!out || ranks < 1 || rank < 0 || rank >= ranks) return INVALID_ARGUMENT;
  const size_t head = 4096, bytes = head + (size_t)ranks * ROOM * sizeof(float);
  const int file = shm_open(id.internal, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return SYSTEM;
  char *memory = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return SYSTEM;
  Comm *comm = new Comm{rank, ranks, (Shared *)memory, (float *)(memory + head), bytes};
  comm->meet();
  if (rank == 0) shm_unlink(id.internal);
  *out = comm;
  log("init", (size_t)ranks);
  return SUCCESS;
}
API ncclCommAbort(Comm *comm) {
  if (!comm) return INVALID_ARGUMENT;
  comm->shared->gone.store(1);
  munmap(comm->shared, comm->bytes);
  delete comm;
  return getenv("SQUALL_STAND_IN_NCCL_ABORT") ? SYSTEM : SUCCESS;
}
API ncclCommDestroy(Comm *comm) { return ncclCommAbort(comm); }

API ncclGroupStart() {
  depth++;
  return SUCCESS;
}
API ncclGroupEnd() {
  if (depth == 0) return INVALID_USAGE;
  if (--depth > 0) return SUCCESS;
  int worst = SUCCESS;
  for (auto &call : waiting)
    if (const int status = call()) worst = status;
  waiting.clear();
  return worst;
}

API ncclAllReduce(const float *send, float *receive, size_t count, int type, int op, Comm *comm, void *stream) {
  const int status = op == SUM ? check(send, receive, count, type, comm, 0) : INVALID_ARGUMENT;
  if (status != SUCCESS) return status;
  log("all-reduce", count);
  return start([=] { return submit(stream, [=] { sum(comm, send, receive, count, true); }); });
}
API ncclReduce(const float *send, float *receive, size_t count, int type, int op, int root, Comm *comm, void *stream) {
  const int status = op == SUM ? check(send, receive, count, type, comm, root) : INVALID_ARGUMENT;
  if (status != SUCCESS) return status;
  log("reduce", count);
  return start([=] { return submit(stream, [=] { sum(comm, send, receive, count, comm->rank == root); }); });
}
API ncclBroadcast(const float *send, float *receive, size_t count, int type, int root, Comm *comm, void *stream) {
  const int status = check(send, receive, count, type, comm, root);
  if (status != SUCCESS) return status;
  log("broadcast", count);
  return start([=] {
    return submit(stream, [=] {
      for (size_t first = 0; first < count; first += ROOM) {
        const size_t some = count - first < ROOM ? count - first : ROOM;
        if (comm->rank == root) memcpy(comm->of(root), send + first, some * sizeof(float));
        comm->meet();
        if (comm->rank != root || send != receive) memcpy(receive + first, comm->of(root), some * sizeof(float));
        comm->meet();
      }
    });
  });
}
