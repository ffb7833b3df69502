/* Functions that Squall never needs: candle makes a handle of cuBLAS and one of cuRAND with every device, which succeeds
 * here, and nothing else does. */
typedef long Word;

#define ACCEPT(name)                                                                                                         \
    int name(Word *handle) {                                                                                                 \
        (void)handle;                                                                                                        \
        return 0;                                                                                                            \
    }
#define CREATE(name)                                                                                                         \
    int name(void **handle) {                                                                                                \
        static int nothing;                                                                                                  \
        *handle = &nothing;                                                                                                  \
        return 0;                                                                                                            \
    }
#define F(name)                                                                                                              \
    int name(void) {                                                                                                         \
        return ABSENT;                                                                                                       \
    }
#include NAMES
