// What few writes over the link to rows of 128 bytes cost that lie anywhere in 2.5 GiB, by the order in which they go and by who writes them; and what as many cost
// side by side, and words of 8 bytes anywhere in 160 MiB.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <vector>
#include <algorithm>
#include <random>
#include <sys/mman.h>
#include <cuda_runtime.h>
#define CK(x) do{cudaError_t er_=(x); if(er_){printf("%s: %s\n",#x,cudaGetErrorString(er_)); exit(1);} }while(0)
typedef unsigned long long u64;
struct alignas(16) V{u64 a,b;};
__device__ void put(V* p, V v){ asm volatile("st.global.cs.v2.u64 [%0], {%1,%2};"::"l"(p),"l"(v.a),"l"(v.b):"memory"); }
// Pieces of 16 bytes, side by side across all threads, as they come in the list.
__global__ void in_list(V* to, const uint32_t* rows, const V* values, int n, int fence){
  int all=gridDim.x*blockDim.x;
  for(int i=blockIdx.x*blockDim.x+threadIdx.x; i<n*8; i+=all) put(to+(size_t)rows[i/8]*8+i%8, values[i]);
  if(fence){ __syncthreads(); if(threadIdx.x==0) __threadfence_system(); }
}
// Rows by piece of the image, each piece written by one multiprocessor: block b of so many has pieces b, b+blocks, ...
__global__ void at_home(V* to, const uint32_t* rows, const uint32_t* begin, int pieces, const V* values, unsigned* rank, int fence){
  __shared__ int home; 
  if(threadIdx.x==0){ unsigned sm; asm("mov.u32 %0, %smid;":"=r"(sm)); home=sm%gridDim.x; }
  __syncthreads();
  int warp=threadIdx.x/32, lane=threadIdx.x%32, warps=blockDim.x/32;
  for(int piece=home+warp*gridDim.x; piece<pieces; piece+=warps*gridDim.x){
    uint32_t b=begin[piece], e=begin[piece+1];
    for(uint32_t i=b*8+lane;i<e*8;i+=32) put(to+(size_t)rows[i/8]*8+i%8, values[i]);
  }
  if(fence){ __syncthreads(); if(threadIdx.x==0) __threadfence_system(); }
}
__global__ void words(u64* to, const uint32_t* at, int n, int fence){
  int all=gridDim.x*blockDim.x;
  for(int i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=all) to[at[i]]=i;
  if(fence){ __syncthreads(); if(threadIdx.x==0) __threadfence_system(); }
}
template<class F> void show(const char* name,int n,F f){
  cudaEvent_t a,b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b)); std::vector<float> t;
  for(int i=0;i<24;i++){ CK(cudaEventRecord(a)); f(i%8); CK(cudaEventRecord(b)); CK(cudaEventSynchronize(b)); float ms; CK(cudaEventElapsedTime(&ms,a,b)); if(i>=8) t.push_back(ms*1000); }
  CK(cudaGetLastError()); std::sort(t.begin(),t.end()); printf("%7d: %-60s %8.1f us %7.1f M/s\n",n,name,t[t.size()/2],n/t[t.size()/2]);
}
int main(){
  const size_t image=(size_t)2560<<20, rows=image/128, index=(size_t)160<<20;
  char* h=(char*)mmap(0,image+index,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(h,image+index,MADV_HUGEPAGE); for(size_t i=0;i<image+index;i+=4096)h[i]=1;
  CK(cudaHostRegister(h,image+index,cudaHostRegisterMapped)); V* d; CK(cudaHostGetDevicePointer((void**)&d,h,0));
  std::mt19937_64 r(1);
  for(int n: {1024,4096,16384,65536}){
    const int pieces=1280; std::vector<uint32_t*> L(8),S(8),B(8),W(8); V* values; unsigned* rank; CK(cudaMalloc(&values,(size_t)n*128)); CK(cudaMalloc(&rank,64));
    for(int k=0;k<8;k++){
      std::vector<uint32_t> l(n); for(auto& x:l) x=r()%rows; std::vector<uint32_t> s=l; std::sort(s.begin(),s.end());
      std::vector<uint32_t> bg(pieces+1); for(int p=0;p<=pieces;p++) bg[p]=std::lower_bound(s.begin(),s.end(),(uint32_t)(rows*(size_t)p/pieces))-s.begin();
      std::vector<uint32_t> w(n); for(auto& x:w) x=r()%(index/8);
      auto up=[&](std::vector<uint32_t>& v){ uint32_t* q; CK(cudaMalloc(&q,v.size()*4)); CK(cudaMemcpy(q,v.data(),v.size()*4,cudaMemcpyHostToDevice)); return q; };
      L[k]=up(l); S[k]=up(s); B[k]=up(bg); W[k]=up(w);
    }
    std::vector<uint32_t> c(n); for(int i=0;i<n;i++) c[i]=i; uint32_t* C; CK(cudaMalloc(&C,n*4)); CK(cudaMemcpy(C,c.data(),n*4,cudaMemcpyHostToDevice));
    for(int fence: {0,1}){
      printf("-- fences: %d\n",fence);
      for(int blocks: {16,132,1056}) { char nm[100]; snprintf(nm,100,"as they come, %d blocks of 256",blocks); show(nm,n,[&](int k){ in_list<<<blocks,256>>>(d,L[k],values,n,fence); });
        snprintf(nm,100,"in order, %d blocks of 256",blocks); show(nm,n,[&](int k){ in_list<<<blocks,256>>>(d,S[k],values,n,fence); }); }
      show("at home, 132 blocks of 256",n,[&](int k){ at_home<<<132,256>>>(d,S[k],B[k],pieces,values,rank,fence); });
      show("at home, 132 blocks of 1024",n,[&](int k){ at_home<<<132,1024>>>(d,S[k],B[k],pieces,values,rank,fence); });
      show("side by side, 16 blocks of 256",n,[&](int k){ in_list<<<16,256>>>(d,C,values,n,fence); });
      show("side by side, 132 blocks of 256",n,[&](int k){ in_list<<<132,256>>>(d,C,values,n,fence); });
      show("words anywhere in 160 MiB, 132 blocks of 256",n,[&](int k){ words<<<132,256>>>((u64*)(d)+image/8,W[k],n,fence); });
    }
    CK(cudaFree(values));
  }
}
