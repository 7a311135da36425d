/* How kernels reach the elements of maps. The files of kernels are compiled as they are for dense tensors, and with
   BANDED for tensors whose parts lie wherever the plan put them: banded_convolution_s8 reads and writes such ones. */
#undef KERNEL
#undef IN
#undef OUT
#undef AT
#undef RUN
#ifdef BANDED
#include "bands.h"
#define KERNEL(name) banded_##name
#define IN(type) const struct bands *
#define OUT(type) const struct bands *
#define AT(type, tensor, at) (*(type *)(void *)byte_of(tensor, (at) * (int32_t)sizeof(type)))
/* The elements from `at` on, or null if fewer than `count` of them lie side by side. */
#define RUN(type, tensor, at, count)                                                                                   \
    ((type *)(void *)run_of(tensor, (at) * (int32_t)sizeof(type), (count) * (int32_t)sizeof(type)))
#else
#define KERNEL(name) name
#define IN(type) const type *
#define OUT(type) type *
#define AT(type, tensor, at) ((tensor)[at])
#define RUN(type, tensor, at, count) ((void)(count), (tensor) + (at))
#endif
