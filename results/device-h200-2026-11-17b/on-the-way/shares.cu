// How fast a GPU reads rows of host memory: anywhere, each multiprocessor in its own part, or in the order of their addresses. See shares.txt.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

__device__ __forceinline__ uint64_t mix(uint64_t x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL; x ^= x >> 33;
    return x;
}
__device__ __forceinline__ unsigned smid() { unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); return s; }

// 0 anywhere; 1 a slice for each multiprocessor; 2 pieces of 2 MiB by turns; 3 in order, by rank; 4 in order, ranks shifted in each batch.
__global__ void __launch_bounds__(1024) rd(const uint4* base, uint64_t rows, uint64_t n, int mode, uint64_t seed, uint4* out) {
    unsigned lane = threadIdx.x & 31, sub = lane >> 3, part = lane & 7, warps = blockDim.x >> 5, warp = threadIdx.x >> 5, nb = gridDim.x;
    uint64_t acc = 0, per = (n + nb - 1) / nb;
    if (mode <= 2) {
        unsigned s = smid() % 132;
        uint64_t slice = rows / 132;
        for (uint64_t i = warp * 4 + sub; i < per; i += warps * 4) {
            uint64_t r = mix(seed * 0x9E3779B97F4A7C15ULL + (uint64_t)blockIdx.x * per + i), row;
            if (mode == 0) row = r % rows;
            else if (mode == 1) row = s * slice + r % slice;
            else row = ((r >> 20) % (rows / 16384 / 132) * 132 + s) * 16384 + (r & 16383);
            acc += __ldcg(base + row * 8 + part).x;
        }
    } else {
        uint64_t shift = mode == 4 ? mix(seed) % 256 : 0;
        for (uint64_t g = (uint64_t)blockIdx.x * warps + warp; g < n / 32; g += (uint64_t)nb * warps)
            for (int k = 0; k < 8; k++) {
                uint64_t rank = (g * 32 + k * 4 + sub + shift) % n, a = rank * rows / n, b = (rank + 1) * rows / n;
                uint64_t row = a + mix(seed + rank * 0x9E3779B97F4A7C15ULL) % (b > a ? b - a : 1);
                acc += __ldcg(base + row * 8 + part).x;
            }
    }
    if (acc == 0x1234567) out[0] = make_uint4(acc, 0, 0, 0);
}

int main() {
    uint4* out; CK(cudaMalloc(&out, 16));
    cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
    struct Mode { const char* name; int mode, blocks, threads; } modes[] = {
        {"anywhere 132x1024", 0, 132, 1024}, {"own slice 132x1024", 1, 132, 1024}, {"own slice 132x256", 1, 132, 256},
        {"own 2MiB pieces 132x1024", 2, 132, 1024}, {"ordered 256t", 3, 0, 256}, {"ordered shifted 256t", 4, 0, 256},
        {"ordered 132x1024 contiguous?", 3, 132, 1024}};
    std::vector<uint64_t> ns = {4096, 16384, 65536, 262144, 1048576};
    for (double gib : {0.5, 1.0, 2.5, 10.0, 40.0}) {
        uint64_t bytes = (uint64_t)(gib * (1ull << 30)), rows = bytes / 128;
        void* p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(p, bytes, MADV_HUGEPAGE);
        #pragma omp parallel for
        for (uint64_t i = 0; i < bytes; i += 4096) ((volatile char*)p)[i] = 1;
        CK(cudaHostRegister(p, bytes, cudaHostRegisterMapped));
        uint4* d; CK(cudaHostGetDevicePointer((void**)&d, p, 0));
        printf("%.2f GiB: rows/us by batch\n%-34s", gib, "");
        for (auto n : ns) printf("%9lu", n);
        printf("\n");
        for (auto& m : modes) {
            printf("%-34s", m.name);
            for (auto n : ns) {
                if (m.mode == 0 && n > 262144) { printf("%9s", "-"); continue; }
                int threads = m.threads, blocks = m.blocks;
                if (!blocks) {
                    threads = n / 128 >= 256 ? 256 : std::max<int>(32, n / 128);
                    blocks = (int)std::min<uint64_t>((n + threads - 1) / threads, 132 * 8);
                }
                int reps = n <= 65536 ? 40 : 12;
                std::vector<float> t;
                for (int i = 0; i < reps + 5; i++) {
                    cudaEventRecord(a);
                    rd<<<blocks, threads>>>(d, rows, n, m.mode, i + 7 * n + m.mode, out);
                    cudaEventRecord(b);
                    CK(cudaEventSynchronize(b));
                    float ms; cudaEventElapsedTime(&ms, a, b);
                    if (i >= 5) t.push_back(ms);
                }
                std::sort(t.begin(), t.end());
                printf("%9.0f", n / (t[t.size() / 2] * 1e3));
            }
            printf("\n");
        }
        CK(cudaHostUnregister(p));
        munmap(p, bytes);
    }
}
