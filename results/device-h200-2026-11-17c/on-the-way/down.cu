// What a get from host to host can be: rows of 128 bytes read in the order of their addresses, and written to host memory.
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
// Each warp takes 32 rows; 8 lanes a row.
__global__ void copy_rows(const V* from, V* to, const uint32_t* src, const uint32_t* dst, int n){
  int lane=threadIdx.x&31; int per=gridDim.x*(blockDim.x/32);
  for(int w=(blockIdx.x*blockDim.x+threadIdx.x)/32; w*32<n; w+=per){
    int base=w*32;
    uint32_t s=src[base+lane], d=dst[base+lane];
    V v[8];
    #pragma unroll
    for(int i=0;i<8;i++){ int r=i*4+lane/8; uint32_t ss=__shfl_sync(~0u,s,r); v[i]=from[(size_t)ss*8+lane%8]; }
    #pragma unroll
    for(int i=0;i<8;i++){ int r=i*4+lane/8; uint32_t dd=__shfl_sync(~0u,d,r); to[(size_t)dd*8+lane%8]=v[i]; }
  }
}
int main(){
  const size_t image=(size_t)2560<<20, rows=image/128; const int n=1<<20;
  void* h=mmap(0,image,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(h,image,MADV_HUGEPAGE); for(size_t i=0;i<image;i+=4096)((char*)h)[i]=1;
  size_t ob=(size_t)n*128;
  void* o=mmap(0,ob,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(o,ob,MADV_HUGEPAGE); for(size_t i=0;i<ob;i+=4096)((char*)o)[i]=1;
  void* o4=mmap(0,ob,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0); madvise(o4,ob,MADV_NOHUGEPAGE); for(size_t i=0;i<ob;i+=4096)((char*)o4)[i]=1;
  auto now=[]{timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e3+t.tv_nsec*1e-6;};
  CK(cudaSetDevice(0)); CK(cudaFree(0));
  CK(cudaHostRegister(h,image,cudaHostRegisterMapped));
  double t0=now(); CK(cudaHostRegister(o,ob,cudaHostRegisterMapped)); double t1=now(); CK(cudaHostRegister(o4,ob,cudaHostRegisterMapped)); double t2=now();
  printf("registering 128 MiB: huge pages %.2f ms, small pages %.2f ms\n",t1-t0,t2-t1);
  t0=now(); CK(cudaHostUnregister(o4)); printf("unregistering %.2f ms\n",now()-t0); CK(cudaHostRegister(o4,ob,cudaHostRegisterMapped));
  V *dh,*dO,*dO4,*dev; CK(cudaHostGetDevicePointer((void**)&dh,h,0)); CK(cudaHostGetDevicePointer((void**)&dO,o,0)); CK(cudaHostGetDevicePointer((void**)&dO4,o4,0)); CK(cudaMalloc(&dev,ob));
  std::mt19937_64 g(1); 
  auto make=[&](int chunk, std::vector<uint32_t>&s, std::vector<uint32_t>&d){ s.resize(n); d.resize(n);
    for(int c=0;c<n;c+=chunk){ std::vector<std::pair<uint32_t,uint32_t>> p(chunk); for(int i=0;i<chunk;i++)p[i]={(uint32_t)(g()%rows),(uint32_t)(c+i)}; std::sort(p.begin(),p.end()); for(int i=0;i<chunk;i++){s[c+i]=p[i].first;d[c+i]=p[i].second;} } };
  std::vector<uint32_t> s,d,id(n); for(int i=0;i<n;i++)id[i]=i;
  uint32_t *ds,*dd,*di; CK(cudaMalloc(&ds,4*n)); CK(cudaMalloc(&dd,4*n)); CK(cudaMalloc(&di,4*n)); CK(cudaMemcpy(di,id.data(),4*n,cudaMemcpyHostToDevice));
  make(n,s,d); CK(cudaMemcpy(ds,s.data(),4*n,cudaMemcpyHostToDevice)); CK(cudaMemcpy(dd,d.data(),4*n,cudaMemcpyHostToDevice));
  cudaStream_t a,b; CK(cudaStreamCreate(&a)); CK(cudaStreamCreate(&b));
  auto time=[&](const char* what, auto f){ std::vector<double> t; for(int r=0;r<7;r++){ CK(cudaDeviceSynchronize()); double x=now(); f(); CK(cudaDeviceSynchronize()); t.push_back(now()-x);} std::sort(t.begin(),t.end()); printf("%-70s %7.0f us %6.0f M/s\n",what,t[3]*1e3,n/t[3]/1e3); fflush(stdout); };
  for(int blocks: {16,32,66,132,264}){
    char w[200];
    snprintf(w,200,"%d blocks of 256: read in order, to device memory, scattered",blocks); time(w,[&]{copy_rows<<<blocks,256,0,a>>>(dh,dev,ds,dd,n);});
    snprintf(w,200,"%d blocks of 256: read in order, to host memory, scattered",blocks); time(w,[&]{copy_rows<<<blocks,256,0,a>>>(dh,dO,ds,dd,n);});
    snprintf(w,200,"%d blocks of 256: the same, of small pages",blocks); time(w,[&]{copy_rows<<<blocks,256,0,a>>>(dh,dO4,ds,dd,n);});
    snprintf(w,200,"%d blocks of 256: read in order, to host memory, in order",blocks); time(w,[&]{copy_rows<<<blocks,256,0,a>>>(dh,dO,ds,di,n);});
    snprintf(w,200,"%d blocks of 256: from device memory in order, to host, in order",blocks); time(w,[&]{copy_rows<<<blocks,256,0,a>>>(dev,dO,di,di,n);});
  }
  time("DMA down alone",[&]{CK(cudaMemcpyAsync(o,dev,ob,cudaMemcpyDeviceToHost,b));});
  time("read in order to device memory while DMA brings as much down",[&]{copy_rows<<<132,256,0,a>>>(dh,dev,ds,dd,n); CK(cudaMemcpyAsync(o,dev,ob,cudaMemcpyDeviceToHost,b));});
  cudaEvent_t e[64]; for(auto&x:e)CK(cudaEventCreateWithFlags(&x,cudaEventDisableTiming));
  for(int k: {2,4,8,16}){ make(n/k,s,d); CK(cudaMemcpy(ds,s.data(),4*n,cudaMemcpyHostToDevice)); CK(cudaMemcpy(dd,d.data(),4*n,cudaMemcpyHostToDevice)); char w[200];
    snprintf(w,200,"%d parts: read in order, DMA down behind it",k);
    time(w,[&]{ for(int c=0;c<k;c++){ int m=n/k; copy_rows<<<132,256,0,a>>>(dh,dev,ds+(size_t)c*m,dd+(size_t)c*m,m); CK(cudaEventRecord(e[c],a)); CK(cudaStreamWaitEvent(b,e[c],0)); CK(cudaMemcpyAsync((char*)o+(size_t)c*m*128,(char*)dev+(size_t)c*m*128,(size_t)m*128,cudaMemcpyDeviceToHost,b)); } }); }
}
