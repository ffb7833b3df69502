// A stand-in for libnvrtc.so.13: compiles kernels as C++ for the CPU with the system's g++ (or $CXX) and `cuda_emu.h`, which lies beside this library.
// "PTX" and "cubin" are the path of the shared library that came out, kept in the folder `kernels` beside this library under a hash of the source, so
// that the same kernels are compiled once.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

namespace {

struct Program {
  std::string source, name, path, log;
};

std::string folder() {
  Dl_info info;
  dladdr((void *)folder, &info);
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::string contents(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// FNV-1a, twice with different starts.
std::string hash(const std::string &text) {
  char out[40];
  uint64_t sums[2] = {0xcbf29ce484222325ull, 0x84222325cbf29ce4ull};
  for (uint64_t &sum : sums)
    for (const char c : text) sum = (sum ^ (unsigned char)c) * 0x100000001b3ull;
  snprintf(out, sizeof out, "%016llx%016llx", (unsigned long long)sums[0], (unsigned long long)sums[1]);
  return out;
}

int copied(const std::string &text, char *out) {
  memcpy(out, text.c_str(), text.size() + 1);
  return SUCCESS;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

// As its file is called.
API int nvrtcVersion(int *major, int *minor) {
  Dl_info info;
  dladdr((void *)folder, &info);
  *major = strstr(info.dli_fname, "libnvrtc.so.12") ? 12 : 13;
  *minor = 0;
  return SUCCESS;
}
API const char *nvrtcGetErrorString(int code) {
  switch (code) {
    case SUCCESS: return "NVRTC_SUCCESS";
    case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
    case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
    case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
    case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    default: return "NVRTC_ERROR unknown";
  }
}
API int nvrtcCreateProgram(Program **program, const char *source, const char *name, int headers, const char *const *, const char *const *) {
  if (!source || headers != 0) return INVALID_INPUT;
  *program = new Program{source, name ? name : "default_program", "", ""};
  return SUCCESS;
}
API int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return SUCCESS;
}
API int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  if (!program) return INVALID_PROGRAM;
  bool architecture = false;
  for (int i = 0; i < count; i++) {
    const std::string option = options[i];
    architecture = architecture || option.rfind("--gpu-architecture=sm_", 0) == 0 || option.rfind("--gpu-architecture=compute_", 0) == 0;
    if (option.rfind("-", 0) != 0) {
      program->log = "nvrtc: error: invalid value for --gpu-architecture or unknown option " + option;
      return INVALID_OPTION;
    }
  }
  if (!architecture) {
    program->log = "stand-in NVRTC: --gpu-architecture=sm_XX is missing";
    return INVALID_OPTION;
  }
  const std::string here = folder(), out = here + "/kernels";
  mkdir(out.c_str(), 0755);
  const std::string stem = out + "/" + hash(program->source + contents(here + "/cuda_emu.h"));
  program->path = stem + ".so";
  if (access(program->path.c_str(), R_OK) == 0) return SUCCESS;
  // Other threads and processes may compile the same now.
  static std::atomic<unsigned> calls;
  const std::string mine = stem + "." + std::to_string(getpid()) + "." + std::to_string(calls++);
  {
    std::ofstream file(mine + ".cpp");
    file << "#line 1 \"" << program->name << "\"\n" << program->source;
  }
  const char *chosen = getenv("CXX");
  const std::string compiler = chosen && *chosen ? chosen : "g++";
  const std::string command = compiler + " -std=c++17 -O1 -march=native -ffp-contract=off -fPIC -shared -Wno-unknown-pragmas -DCUDA_EMU -I'" + here +
                              "' -o '" + mine + ".so' '" + mine + ".cpp' 2>'" + mine + ".log'";
  const int status = system(command.c_str());
  program->log = contents(mine + ".log");
  unlink((mine + ".log").c_str());
  unlink((mine + ".cpp").c_str());
  if (status != 0) {
    program->log += "\n" + command;
    return COMPILATION;
  }
  return rename((mine + ".so").c_str(), program->path.c_str()) == 0 ? SUCCESS : COMPILATION;
}
API int nvrtcGetProgramLogSize(Program *program, size_t *size) {
  *size = program->log.size() + 1;
  return SUCCESS;
}
API int nvrtcGetProgramLog(Program *program, char *log) { return copied(program->log, log); }
API int nvrtcGetPTXSize(Program *program, size_t *size) {
  *size = program->path.size() + 1;
  return program->path.empty() ? INVALID_PROGRAM : SUCCESS;
}
API int nvrtcGetPTX(Program *program, char *ptx) { return copied(program->path, ptx); }
API int nvrtcGetCUBINSize(Program *program, size_t *size) { return nvrtcGetPTXSize(program, size); }
API int nvrtcGetCUBIN(Program *program, char *cubin) { return copied(program->path, cubin); }
API int nvrtcGetNumSupportedArchs(int *count) {
  *count = 2;
  return SUCCESS;
}
API int nvrtcGetSupportedArchs(int *architectures) {
  architectures[0] = 80;
  architectures[1] = 90;
  return SUCCESS;
}
