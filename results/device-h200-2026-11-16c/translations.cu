// How fast a GPU reads rows of 128 bytes from registered host memory, by how near they lie to each other and in which order they are read.
//   nvcc -O3 -arch=sm_90 -std=c++17 translations.cu -o translations && ./translations
// Takes 28 GiB of host memory, three times over. Millions of rows a second.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

typedef unsigned long long u64;

#define CHECK(call)                                                                \
    do {                                                                           \
        cudaError_t error = (call);                                                \
        if (error) { printf("%s: %s\n", #call, cudaGetErrorString(error)); exit(1); } \
    } while (0)

__device__ uint4 load_l2(const uint4* at) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
}

// Eight lanes a row, eight rows of each under way.
__global__ void fetch(const char* base, const u64* offsets, uint4* out, u64 count) {
    u64 first = blockIdx.x * (u64)blockDim.x + threadIdx.x, threads = gridDim.x * (u64)blockDim.x;
    int lane = threadIdx.x % 32;
    for (u64 place = first; place / 32 * 32 < count; place += threads) {
        u64 mine = place < count ? offsets[place] : 0;
        uint4 some[8];
        for (int i = 0; i < 8; i++) {
            u64 from = __shfl_sync(~0u, mine, i * 4 + lane / 8);
            some[i] = load_l2((const uint4*)(base + from) + lane % 8);
        }
        for (int i = 0; i < 8; i++) out[(place / 32 * 32 + i * 4 + lane / 8) * 8 + lane % 8] = some[i];
    }
}

static u64* device_offsets;
static uint4* out;

// The best of three.
static double rate(const char* base, const std::vector<u64>& offsets, int blocks) {
    CHECK(cudaMemcpy(device_offsets, offsets.data(), offsets.size() * 8, cudaMemcpyHostToDevice));
    cudaEvent_t begun, done;
    cudaEventCreate(&begun);
    cudaEventCreate(&done);
    double best = 0;
    for (int round = 0; round < 3; round++) {
        cudaEventRecord(begun);
        fetch<<<blocks, 256>>>(base, device_offsets, out, offsets.size());
        cudaEventRecord(done);
        CHECK(cudaDeviceSynchronize());
        float ms;
        cudaEventElapsedTime(&ms, begun, done);
        best = std::max(best, offsets.size() / ms / 1e3);
    }
    return best;
}

static std::vector<u64> random_rows(u64 count, u64 bytes, u64 seed) {
    std::mt19937_64 dice(seed);
    std::vector<u64> rows(count);
    for (u64& row : rows) row = dice() % (bytes / 128) * 128;
    return rows;
}

int main() {
    const u64 bytes = 28ull << 30, most = 8 << 20;
    const int sm = 132;
    CHECK(cudaMalloc(&device_offsets, most * 8));
    CHECK(cudaMalloc(&out, most * 128));
    const char* names[] = {"memfd, registered", "anonymous, registered", "cudaHostAlloc"};
    for (int kind = 0; kind < 3; kind++) {
        char* memory;
        if (kind == 2) {
            CHECK(cudaHostAlloc((void**)&memory, bytes, cudaHostAllocMapped));
        } else {
            int fd = kind == 0 ? memfd_create("rows", 0) : -1;
            if (kind == 0 && ftruncate(fd, bytes)) return 1;
            memory = (char*)mmap(0, bytes, PROT_READ | PROT_WRITE, kind == 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
            madvise(memory, bytes, MADV_HUGEPAGE);
        }
        std::vector<std::thread> threads;
        for (int t = 0; t < 16; t++) {
            threads.emplace_back([=] { for (u64 i = bytes / 16 * t; i < bytes / 16 * (t + 1); i += 4096) memory[i] = 1; });
        }
        for (std::thread& thread : threads) thread.join();
        if (kind < 2) CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterMapped));
        char* base;
        CHECK(cudaHostGetDevicePointer((void**)&base, memory, 0));
        for (u64 count : {2ull << 20, 8ull << 20}) {
            std::vector<u64> rows = random_rows(count, bytes, 7), sorted = rows;
            std::sort(sorted.begin(), sorted.end());
            printf("%s, a row in %llu bytes: random %.0f", names[kind], bytes / count, rate(base, rows, sm * 8));
            for (int each : {1, 2, 4, 8}) printf(", sorted x%d %.0f", each, rate(base, sorted, sm * each));
            for (int bits : {16, 17, 19, 21, 22}) {
                std::vector<u64> some = rows;
                std::stable_sort(some.begin(), some.end(), [=](u64 a, u64 b) { return a >> bits < b >> bits; });
                printf(", 2^%d %.0f (few %.0f)", bits, rate(base, some, sm * 8), rate(base, some, sm * 2));
            }
            printf("\n");
        }
        for (u64 mib : {64, 256, 512, 1024, 2048, 4096, 8192, 28672}) {
            printf("  random in %llu MiB: %.0f;", mib, rate(base, random_rows(1 << 20, mib << 20, 9), sm * 8));
        }
        for (u64 kib : {4, 8, 16, 32, 64, 128, 1024, 2048}) {
            std::vector<u64> rows(std::min<u64>(1 << 20, bytes / (kib << 10)));
            for (u64 i = 0; i < rows.size(); i++) rows[i] = i * (kib << 10);
            printf("  each %llu KiB: %.0f;", kib, rate(base, rows, sm * 8));
        }
        printf("\n");
        fflush(stdout);
        if (kind < 2) cudaHostUnregister(memory), munmap(memory, bytes);
        else cudaFreeHost(memory);
    }
}
