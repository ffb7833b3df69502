// Modules of kernels, their launches, and the names of errors.
#pragma once
#include "device.h"

API cuModuleLoadData(Handle *module, const void *image) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (written_by_this_thread) return illegal("cuModuleLoadData");
  const char *path = (const char *)image;
  if (!path || path[0] != '/') return INVALID_IMAGE;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(INVALID_IMAGE, "%s", dlerror());
  Module *made = new Module{library, {}};
  modules.insert(made);
  *module = made;
  return SUCCESS;
}
API cuModuleLoadDataEx(Handle *module, const void *image, unsigned, int *, void **) { return cuModuleLoadData(module, image); }
API cuModuleUnload(Handle module) {
  Guard guard(lock);
  if (!modules.erase(module)) return INVALID_HANDLE;
  const CUresult failed = settle_all();
  // The library stays: its kernels may be another module's too.
  delete (Module *)module;
  return failed;
}
API cuModuleGetFunction(Handle *function, Handle module, const char *name) {
  Guard guard(lock);
  if (!modules.count(module)) return INVALID_HANDLE;
  Module *of = (Module *)module;
  void *symbol = dlsym(of->library, (std::string(name) + "__launch").c_str());
  if (!symbol) return NOT_FOUND;
  Function &made = of->functions[name];
  const char *letters = (const char *)dlsym(of->library, (std::string(name) + "__arguments").c_str());
  made = {(int (*)(const unsigned *, void **))symbol, 49152, letters ? letters : ""};
  *function = &made;
  return SUCCESS;
}
API cuFuncSetAttribute(Handle function, int attribute, int value) {
  if (attribute == 8) ((Function *)function)->shared_limit = value;
  return SUCCESS;
}
API cuFuncGetAttribute(int *value, int attribute, Handle) {
  *value = attribute == 0 ? 1024 : 0;
  return SUCCESS;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle, int, size_t) {
  *blocks = 2;
  return SUCCESS;
}
API cuLaunchKernel(Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, Handle stream, void **args, void **extra) {
  Guard guard(lock);
  if (!bound) return INVALID_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (extra) return NOT_SUPPORTED;
  const Function *run = (const Function *)function;
  const uint64_t threads = (uint64_t)block_x * block_y * block_z;
  const bool fits = grid_x >= 1 && grid_y >= 1 && grid_z >= 1 && threads >= 1 && grid_x <= 2147483647u && grid_y <= 65535 && grid_z <= 65535 &&
                    block_x <= 1024 && block_y <= 1024 && block_z <= 64 && threads <= 1024 && (int)shared <= run->shared_limit;
  if (!fits) return fail(INVALID_VALUE, "no GPU runs the grid (%u, %u, %u) of blocks (%u, %u, %u)", grid_x, grid_y, grid_z, block_x, block_y, block_z);
  // Arguments are read before the call returns.
  std::vector<uint64_t> words(run->letters.size());
  for (size_t i = 0; i < words.size(); i++) memcpy(&words[i], args[i], run->letters[i] == 'i' || run->letters[i] == 'f' ? 4 : 8);
  const auto launch = run->launch;
  return submit(stream, [=] {
    const unsigned dims[6] = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
    std::vector<uint64_t> values = words;
    std::vector<void *> places(values.size());
    for (size_t i = 0; i < places.size(); i++) places[i] = &values[i];
    return launch(dims, places.data()) ? LAUNCH_FAILED : SUCCESS;
  });
}

API cuGetErrorName(CUresult code, const char **name) {
  switch (code) {
    case SUCCESS: *name = "CUDA_SUCCESS"; break;
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case NOT_INITIALIZED: *name = "CUDA_ERROR_NOT_INITIALIZED"; break;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; break;
    case INVALID_DEVICE: *name = "CUDA_ERROR_INVALID_DEVICE"; break;
    case INVALID_IMAGE: *name = "CUDA_ERROR_INVALID_IMAGE"; break;
    case INVALID_CONTEXT: *name = "CUDA_ERROR_INVALID_CONTEXT"; break;
    case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; break;
    case NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case NOT_READY: *name = "CUDA_ERROR_NOT_READY"; break;
    case ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; break;
    case CAPTURE_UNSUPPORTED: *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"; break;
    case CAPTURE_INVALIDATED: *name = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"; break;
    case CAPTURE_ISOLATION: *name = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"; break;
    default: *name = "CUDA_ERROR_UNKNOWN"; return INVALID_VALUE;
  }
  return SUCCESS;
}
API cuGetErrorString(CUresult code, const char **text) { return cuGetErrorName(code, text); }
