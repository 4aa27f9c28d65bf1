// A linear recurrence along rows, y[i] = a[i] y[i - 1] + x[i], or from the end, y[i] = a[i + 1] y[i + 1]
// + x[i]: a warp takes a row, 32 elements at a time. Two steps (a, x) and (b, y) after one another are one
// step (a b, b x + y), so that lanes join theirs in five rounds.
template <bool back>
__global__ void scan(const float *x, const float *a, float *y, int rows, int n)
{
    const unsigned all = 0xffffffff;
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return; // (all lanes of a warp alike)
    x += (long long)row * n, a += (long long)row * n, y += (long long)row * n;
    float before = 0; // y of the element in front
    for (int first = 0; first < n; first += 32) {
        int k = first + lane, i = back ? n - 1 - k : k;
        float v = k < n ? x[i] : 0.0f;
        float f = k >= n || k == 0 ? 1.0f : a[back ? i + 1 : i];
        for (int d = 1; d < 32; d *= 2) {
            float v0 = __shfl_up_sync(all, v, d), f0 = __shfl_up_sync(all, f, d);
            if (lane >= d) v = fmaf(f, v0, v), f *= f0;
        }
        v = fmaf(f, before, v);
        if (k < n) y[i] = v;
        before = __shfl_sync(all, v, 31);
    }
}
