// Driver functions that the runtime may ask for and driver.c does not have: "not supported".
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "tests/shim/shim.h"

#define F(name, symbol, params)                                                                    \
    __attribute__((weak)) CuResult other_##name params __asm__(symbol);                            \
    CuResult other_##name params                                                                   \
    {                                                                                              \
        return 801;                                                                                \
    }
CU_FUNCTIONS(F)
