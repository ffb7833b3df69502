/* Functions of a library that is loaded when the first of them is called, so that the program starts without it.
 *
 * Every function has 24 words of arguments: six in registers and, on the stack, more than any function here takes, so
 * that the same words reach the real one whatever they mean. None of them is a floating-point number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef long Word;
typedef int (*Function)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                        Word, Word, Word, Word, Word, Word, Word);

/* Folders to look into first, with colons between them. */
#ifdef OWNS_FOLDERS
static const char *folders = "";
void squall_cuda_folders(const char *list) {
    /* Never freed: another thread may be reading the one before. */
    const char *copy = strdup(list);
    if (copy)
        __atomic_store_n(&folders, copy, __ATOMIC_RELEASE);
}
const char *squall_cuda_folder_list(void) {
    return __atomic_load_n(&folders, __ATOMIC_ACQUIRE);
}
#else
extern const char *squall_cuda_folder_list(void);
#endif

static void *open_library(void) {
    static void *found;
    void *library = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
    static const char *const names[] = {SONAMES, NULL};
    const char *list = squall_cuda_folder_list();
    while (!library && *list) {
        size_t length = strcspn(list, ":");
        for (int i = 0; !library && length && names[i]; i++) {
            char path[4608];
            snprintf(path, sizeof path, "%.*s/%s", (int)length, list, names[i]);
            library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
        }
        list += length + (list[length] == ':');
    }
    for (int i = 0; !library && names[i]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    if (library)
        __atomic_store_n(&found, library, __ATOMIC_RELEASE);
    return library;
}

static Function find(Function *slot, const char *name) {
    Function function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!function) {
        void *library = open_library();
        function = library ? (Function)dlsym(library, name) : NULL;
        if (function)
            __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    }
    return function;
}

#define F(name)                                                                                                              \
    int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k, Word l, Word m, Word n, \
             Word o, Word p, Word q, Word r, Word s, Word t, Word u, Word v, Word w, Word x) {                               \
        static Function slot;                                                                                                \
        Function function = find(&slot, #name);                                                                              \
        if (!function)                                                                                                       \
            return ABSENT;                                                                                                   \
        return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x);                             \
    }
#include NAMES
