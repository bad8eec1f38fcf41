// SPDX-License-Identifier: Apache-2.0
#include "bench/opencl_peer.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#ifdef ONRT_BENCH_OPENCL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#endif

namespace onrt::bench {

#ifdef ONRT_BENCH_OPENCL

namespace {

void check(const char* what, cl_int status) {
  if (status != CL_SUCCESS) {
    fprintf(stderr, "OpenCL: %s: status %d\n", what, status);
    exit(1);
  }
}

cl_device_id find_cpu() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) {
    return nullptr;
  }
  std::vector<cl_platform_id> platforms(count);
  check("platforms", clGetPlatformIDs(count, platforms.data(), nullptr));
  for (cl_platform_id platform : platforms) {
    cl_device_id device = nullptr;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr) == CL_SUCCESS) {
      return device;
    }
  }
  return nullptr;
}

class Pocl : public OpenClPeer {
 public:
  Pocl(cl_device_id device, int64_t elements) : elements_(static_cast<size_t>(elements)) {
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check("context", status);
    queue_ = clCreateCommandQueue(context_, device, 0, &status);
    check("queue", status);
    const char* source =
        "kernel void add(global const float* a, global const float* b, global float* c) {"
        "  size_t i = get_global_id(0); c[i] = a[i] + b[i]; }";
    cl_program program = clCreateProgramWithSource(context_, 1, &source, nullptr, &status);
    check("program", status);
    check("build", clBuildProgram(program, 1, &device, nullptr, nullptr, nullptr));
    kernel_ = clCreateKernel(program, "add", &status);
    check("kernel", status);
    const std::vector<float> zeros(elements_);
    for (cl_uint i = 0; i < 3; ++i) {
      cl_mem buffer =
          clCreateBuffer(context_, CL_MEM_READ_WRITE, elements_ * sizeof(float), nullptr, &status);
      check("buffer", status);
      check("write", clEnqueueWriteBuffer(queue_, buffer, CL_TRUE, 0, elements_ * sizeof(float),
                                          zeros.data(), 0, nullptr, nullptr));
      check("argument", clSetKernelArg(kernel_, i, sizeof buffer, &buffer));
    }
    char text[256] = "";
    check("version", clGetDeviceInfo(device, CL_DEVICE_VERSION, sizeof text, text, nullptr));
    version_ = text;
  }

  const std::string& version() const override { return version_; }

  void run() override {
    check("enqueue", clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &elements_, nullptr, 0,
                                            nullptr, nullptr));
    check("finish", clFinish(queue_));
  }

 private:
  size_t elements_;
  cl_context context_ = nullptr;  // lives as long as the process
  cl_command_queue queue_ = nullptr;
  cl_kernel kernel_ = nullptr;
  std::string version_;
};

}  // namespace

std::unique_ptr<OpenClPeer> OpenClPeer::start(int64_t elements) {
  cl_device_id device = find_cpu();
  if (device == nullptr) {
    fprintf(stderr, "no PoCL figures: no OpenCL CPU device\n");
    return nullptr;
  }
  return std::make_unique<Pocl>(device, elements);
}

#else

std::unique_ptr<OpenClPeer> OpenClPeer::start(int64_t) {
  fprintf(stderr, "no PoCL figures: built without OpenCL headers\n");
  return nullptr;
}

#endif

}  // namespace onrt::bench
