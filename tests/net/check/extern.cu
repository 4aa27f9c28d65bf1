// Kernels for extern.net, in all the ways a text can be written.
static __device__ float halved(float v) { return v * 0.5f; }

// by names netc gives: types, sizes, numbers known while compiling; shared memory whose size is known
#ifdef NETC_centred
extern "C" __global__ void centred(const x_type *x, y_type *y, middle_type *middle)
{
    __shared__ float sum[x_dim1];
    const x_type *row = x + blockIdx.x * x_dim1;
    for (int i = threadIdx.x; i < x_dim1; i += blockDim.x) sum[i] = (float)row[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        float s = 0;
        for (int i = 0; i < x_dim1; i++) s += sum[i];
        sum[0] = s / x_dim1;
        middle[blockIdx.x] = sum[0];
    }
    __syncthreads();
    float m = sum[0];
    for (int i = threadIdx.x; i < x_dim1; i += blockDim.x)
        y[blockIdx.x * x_dim1 + i] = ((float)row[i] - m) * (float)scale * (on ? 1 : 2);
}
#endif

// by arguments; dynamic shared memory; bounds of its own; grids and blocks of three axes
template <class T>
__global__ void __launch_bounds__(64, 1) turned(const T *__restrict__ x, T *__restrict__ y, int rows, int cols)
{
    extern __shared__ float tile[];
    int at = threadIdx.x + 8 * threadIdx.y, r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 8 + threadIdx.x;
    if (r < rows && c < cols) tile[at] = (float)x[r * cols + c];
    __syncthreads();
    r = blockIdx.y * 8 + threadIdx.x, c = blockIdx.x * 8 + threadIdx.y;
    if (r < rows && c < cols) y[c * rows + r] = tile[8 * threadIdx.x + threadIdx.y];
}

// two launches one behind the other, the second reads what the first wrote
__global__ void counted(const int *index, const unsigned char *weight, const bool *use, int n, int *count, int places)
{
    for (int p = threadIdx.x; p < places; p += blockDim.x) {
        int c = 0;
        for (int i = 0; i < n; i++)
            if (use[i] && index[i] == p) c += weight[i];
        count[p] = c;
    }
}
__global__ void shares(int *count, float *share, int places)
{
    int all = 0;
    for (int i = 0; i < places; i++) all += count[i];
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < places) share[p] = all ? 2 * halved((float)count[p] / all) : 0;
}

template <int power> __global__ void powers(const float *x, const float *by, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = 1;
    for (int k = 0; k < power; k++) v *= x[i];
    y[i] = v * by[0];
}
