// What launching costs a small batch that writes: a memset, three kernels, a copy of 64 bytes to the host, and waiting for it, after an event of somebody
// else's stream; as calls, as a graph, as a graph whose kernels get new parameters with every batch, and with kernels that begin before the one before has ended.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include <chrono>
#include <cuda_runtime.h>
#define CK(x) do{cudaError_t er_=(x); if(er_){printf("%s: %s\n",#x,cudaGetErrorString(er_)); exit(1);} }while(0)
struct P{ unsigned long long* a; unsigned long long* host; unsigned n; unsigned ns; unsigned dependent; unsigned char room[600]; };
__device__ void wait_ns(unsigned ns){ unsigned long long b,e; asm volatile("mov.u64 %0, %globaltimer;":"=l"(b)); do{ asm volatile("mov.u64 %0, %globaltimer;":"=l"(e)); }while(e-b<ns); }
__device__ void spin(unsigned cycles){ long long b=clock64(); while(clock64()-b<cycles); }
__global__ void work(const __grid_constant__ P p){
#if __CUDA_ARCH__>=900
  if(p.dependent){ cudaTriggerProgrammaticLaunchCompletion(); cudaGridDependencySynchronize(); }
#endif
  unsigned i=blockIdx.x*blockDim.x+threadIdx.x;
  spin(p.ns*17/10);
  if(i<p.n) p.a[i]+=1;
}
__global__ void last(const __grid_constant__ P p){
#if __CUDA_ARCH__>=900
  if(p.dependent) cudaGridDependencySynchronize();
#endif
  unsigned i=blockIdx.x*blockDim.x+threadIdx.x;
  spin(p.ns*17/10);
  if(i<p.n) p.a[i]+=1;
}
// Tells the host, who looks: a counter of blocks, and the last of them writes.
__global__ void telling(const __grid_constant__ P p, unsigned* done, unsigned turn){
  unsigned i=blockIdx.x*blockDim.x+threadIdx.x;
  spin(p.ns*17/10);
  if(i<p.n) p.a[i]+=1;
  __syncthreads();
  if(threadIdx.x==0){ __threadfence(); if(atomicAdd(done,1)+1==gridDim.x){ *done=0; for(int j=0;j<8;j++) p.host[j]=p.a[j]; __threadfence_system(); *(volatile unsigned long long*)(p.host+8)=turn; } }
}
static double us(){ return std::chrono::duration<double,std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
template<class F> void show(const char* name, unsigned n, unsigned ns, F f){
  std::vector<double> t; for(int i=0;i<1200;i++){ double b=us(); f(i); t.push_back(us()-b); }
  t.erase(t.begin(),t.begin()+200); std::sort(t.begin(),t.end());
  printf("%6u threads, kernels of %4u ns: %-70s p50 %6.1f us  p10 %6.1f  p99 %6.1f\n",n,ns,name,t[t.size()/2],t[t.size()/10],t[t.size()*99/100]);
}
int main(){
  unsigned long long *a,*host,*ho; CK(cudaMalloc(&a,1<<24)); CK(cudaMemset(a,0,1<<24)); CK(cudaHostAlloc(&host,4096,cudaHostAllocMapped)); CK(cudaHostGetDevicePointer((void**)&ho,host,0));
  unsigned* done; CK(cudaMalloc(&done,64)); CK(cudaMemset(done,0,64));
  cudaStream_t own,callers; CK(cudaStreamCreateWithFlags(&own,cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&callers,cudaStreamNonBlocking));
  cudaEvent_t ev; CK(cudaEventCreateWithFlags(&ev,cudaEventDisableTiming));
  for(unsigned n: {1024u,4096u}) for(unsigned ns: {500u,3000u,8000u}){
    P p{}; p.a=a; p.host=ho; p.n=n; p.ns=ns; dim3 g((n+255)/256),b(256);
    size_t cleared=n*2*16+512; unsigned long long* zero=a+(1<<20);
    auto order=[&]{ CK(cudaEventRecord(ev,callers)); CK(cudaStreamWaitEvent(own,ev,0)); };
    auto body=[&](cudaStream_t s){ CK(cudaMemsetAsync(zero,0,cleared,s)); work<<<g,b,0,s>>>(p); work<<<g,b,0,s>>>(p); last<<<g,b,0,s>>>(p); CK(cudaMemcpyAsync(host,a,64,cudaMemcpyDeviceToHost,s)); };
    show("kernels alone: three, and waiting",n,ns,[&](int){ work<<<g,b,0,own>>>(p); work<<<g,b,0,own>>>(p); last<<<g,b,0,own>>>(p); CK(cudaStreamSynchronize(own)); });
    show("as calls: event, memset, three kernels, copy, waiting",n,ns,[&](int){ order(); body(own); CK(cudaStreamSynchronize(own)); });
    show("the same without the event",n,ns,[&](int){ body(own); CK(cudaStreamSynchronize(own)); });
    show("without the event and without the memset",n,ns,[&](int){ work<<<g,b,0,own>>>(p); work<<<g,b,0,own>>>(p); last<<<g,b,0,own>>>(p); CK(cudaMemcpyAsync(host,a,64,cudaMemcpyDeviceToHost,own)); CK(cudaStreamSynchronize(own)); });
    show("event and memset, the last kernel writes to the host, waiting for stream",n,ns,[&](int i){ order(); CK(cudaMemsetAsync(zero,0,cleared,own)); work<<<g,b,0,own>>>(p); work<<<g,b,0,own>>>(p); telling<<<g,b,0,own>>>(p,done,i+1); CK(cudaStreamSynchronize(own)); });
    show("event and memset, the last kernel tells the host, who looks",n,ns,[&](int i){ order(); CK(cudaMemsetAsync(zero,0,cleared,own)); work<<<g,b,0,own>>>(p); work<<<g,b,0,own>>>(p); ((volatile unsigned long long*)host)[8]=0; telling<<<g,b,0,own>>>(p,done,i+1); while(((volatile unsigned long long*)host)[8]!=(unsigned)i+1); });
    CK(cudaStreamSynchronize(own));
    cudaGraph_t graph; cudaGraphExec_t ex;
    CK(cudaStreamBeginCapture(own,cudaStreamCaptureModeThreadLocal)); body(own); CK(cudaStreamEndCapture(own,&graph)); CK(cudaGraphInstantiate(&ex,graph,0)); CK(cudaGraphUpload(ex,own)); CK(cudaStreamSynchronize(own));
    show("as a graph, after the event",n,ns,[&](int){ order(); CK(cudaGraphLaunch(ex,own)); CK(cudaStreamSynchronize(own)); });
    size_t count=0; CK(cudaGraphGetNodes(graph,nullptr,&count)); std::vector<cudaGraphNode_t> nodes(count); CK(cudaGraphGetNodes(graph,nodes.data(),&count));
    show("as a graph, each kernel with new parameters, after the event",n,ns,[&](int i){ order(); p.room[0]=i; for(auto& node: nodes){ cudaGraphNodeType t; CK(cudaGraphNodeGetType(node,&t)); if(t!=cudaGraphNodeTypeKernel) continue; cudaKernelNodeParams k; CK(cudaGraphKernelNodeGetParams(node,&k)); void* args[]={&p}; k.kernelParams=args; k.extra=nullptr; CK(cudaGraphExecKernelNodeSetParams(ex,node,&k)); } CK(cudaGraphLaunch(ex,own)); CK(cudaStreamSynchronize(own)); });
    // Kernels alone as a graph, the rest as calls.
    cudaGraph_t g3; cudaGraphExec_t ex3; CK(cudaStreamBeginCapture(own,cudaStreamCaptureModeThreadLocal)); work<<<g,b,0,own>>>(p); work<<<g,b,0,own>>>(p); last<<<g,b,0,own>>>(p); CK(cudaStreamEndCapture(own,&g3)); CK(cudaGraphInstantiate(&ex3,g3,0));
    show("kernels alone as a graph, and waiting",n,ns,[&](int){ CK(cudaGraphLaunch(ex3,own)); CK(cudaStreamSynchronize(own)); });
    P q=p; q.dependent=1; cudaLaunchAttribute at; at.id=cudaLaunchAttributeProgrammaticStreamSerialization; at.val.programmaticStreamSerializationAllowed=1;
    cudaLaunchConfig_t cf{}; cf.gridDim=g; cf.blockDim=b; cf.stream=own; cf.attrs=&at; 
    show("kernels alone, each launched before the last one ends",n,ns,[&](int){ cf.numAttrs=0; CK(cudaLaunchKernelEx(&cf,work,q)); cf.numAttrs=1; CK(cudaLaunchKernelEx(&cf,work,q)); CK(cudaLaunchKernelEx(&cf,last,q)); CK(cudaStreamSynchronize(own)); });
    show("event, memset, such kernels, copy, waiting",n,ns,[&](int){ order(); CK(cudaMemsetAsync(zero,0,cleared,own)); cf.numAttrs=0; CK(cudaLaunchKernelEx(&cf,work,q)); cf.numAttrs=1; CK(cudaLaunchKernelEx(&cf,work,q)); CK(cudaLaunchKernelEx(&cf,last,q)); CK(cudaMemcpyAsync(host,a,64,cudaMemcpyDeviceToHost,own)); CK(cudaStreamSynchronize(own)); });
    CK(cudaGraphExecDestroy(ex)); CK(cudaGraphDestroy(graph)); CK(cudaGraphExecDestroy(ex3)); CK(cudaGraphDestroy(g3));
  }
}
