// How fast rows of 128 bytes come from registered host memory to a GPU and back to other host memory, with copies beside the fetching: what gets
// from host to host cost at least if the device fetches the values.
//   nvcc -O3 -arch=sm_90 -std=c++17 duplex.cu -o duplex && ./duplex
// A batch of 2^20 rows, anywhere in 2.8 GiB, in chunks of so many sixteenths; each is fetched in about the order of its addresses, and copied
// back while the next is fetched. The best of six.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <cuda_runtime.h>

typedef unsigned long long u64;

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t error = (call);                                                \
        if (error) { printf("%s: %s\n", #call, cudaGetErrorString(error)); exit(1); } \
    } while (0)

struct Row {
    u64 from, to;
};

__device__ uint4 load_l2(const uint4* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
}

// Eight lanes a row, eight rows of each under way.
__global__ void fetch(const char* base, const Row* rows, uint4* out, u64 count) {
    u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x, threads = gridDim.x * (u64)blockDim.x;
    int lane = threadIdx.x % 32;
    for (u64 place = first; place / 32 * 32 < count; place += threads) {
        Row mine = place < count ? rows[place] : Row{0, 0};
        uint4 some[8];
        u64 to[8];
        for (int i = 0; i < 8; i++) {
            u64 from = __shfl_sync(~0u, mine.from, i * 4 + lane / 8);
            to[i] = __shfl_sync(~0u, mine.to, i * 4 + lane / 8);
            some[i] = load_l2((const uint4*)(base + from) + lane % 8);
        }
        for (int i = 0; i < 8; i++) out[to[i] * 8 + lane % 8] = some[i];
    }
}

int main() {
    const u64 bytes = 2900ull << 20, count = 1 << 20;
    char *image, *back;
    CHECK(cudaHostAlloc((void**)&image, bytes, cudaHostAllocMapped));
    CHECK(cudaHostAlloc((void**)&back, count * 128, cudaHostAllocMapped));
    for (u64 i = 0; i < bytes; i += 4096) image[i] = 1;
    uint4* out;
    Row* rows;
    CHECK(cudaMalloc(&out, count * 128));
    CHECK(cudaMalloc(&rows, count * sizeof(Row)));
    cudaStream_t fetching, copying;
    CHECK(cudaStreamCreateWithFlags(&fetching, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking));
    cudaEvent_t fetched[16], copied, begun, done;
    for (cudaEvent_t& event : fetched) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&begun));
    CHECK(cudaEventCreate(&done));
    std::mt19937_64 dice(3);
    std::vector<std::vector<int>> plans = {
        {16}, {8, 8}, {4, 4, 4, 4}, {2, 2, 2, 2, 2, 2, 2, 2}, std::vector<int>(16, 1), {4, 4, 4, 2, 1, 1}, {4, 4, 4, 2, 2}, {6, 5, 3, 1, 1},
    };
    for (int blocks : {132 * 8, 132 * 2}) for (const std::vector<int>& plan : plans) for (bool copies : {false, true}) {
        std::vector<Row> all(count);
        u64 at = 0;
        for (int share : plan) {
            u64 some = count / 16 * share;
            for (u64 i = 0; i < some; i++) all[at + i] = {dice() % (bytes / 128) * 128, at + i};
            std::stable_sort(all.begin() + at, all.begin() + at + some, [](const Row& a, const Row& b) { return a.from >> 17 < b.from >> 17; });
            at += some;
        }
        CHECK(cudaMemcpy(rows, all.data(), count * sizeof(Row), cudaMemcpyHostToDevice));
        float best = 1e9;
        for (int round = 0; round < 6; round++) {
            CHECK(cudaDeviceSynchronize());
            CHECK(cudaEventRecord(begun, fetching));
            at = 0;
            int chunk = 0;
            for (int share : plan) {
                u64 some = count / 16 * share;
                fetch<<<blocks, 256, 0, fetching>>>(image, rows + at, out, some);
                if (copies) {
                    CHECK(cudaEventRecord(fetched[chunk], fetching));
                    CHECK(cudaStreamWaitEvent(copying, fetched[chunk++], 0));
                    CHECK(cudaMemcpyAsync(back + at * 128, (char*)out + at * 128, some * 128, cudaMemcpyDeviceToHost, copying));
                }
                at += some;
            }
            if (copies) {
                CHECK(cudaEventRecord(copied, copying));
                CHECK(cudaStreamWaitEvent(fetching, copied, 0));
            }
            CHECK(cudaEventRecord(done, fetching));
            CHECK(cudaDeviceSynchronize());
            float ms;
            CHECK(cudaEventElapsedTime(&ms, begun, done));
            best = std::min(best, ms);
        }
        printf("blocks %d chunks", blocks);
        for (int share : plan) printf(" %d", share);
        printf(" %s: %.0f us, %.0f M/s\n", copies ? "fetch and copy back" : "fetch", best * 1e3, count / best / 1e3);
    }
}
