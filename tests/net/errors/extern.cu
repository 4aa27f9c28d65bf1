extern "C" __global__ void kernel(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
