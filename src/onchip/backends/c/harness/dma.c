#include "dma.h"

#include <string.h>

void dma_copy(void *target, const void *source, size_t bytes)
{
    memcpy(target, source, bytes);
}
