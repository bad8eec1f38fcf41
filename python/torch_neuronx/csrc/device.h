// SPDX-License-Identifier: Apache-2.0
// Devices of this process: NeuronCores, numbered as torch numbers them. Thread-safe.
#pragma once

#include "python/torch_neuronx/csrc/libraries.h"

namespace tnx {

// Ends the queues and gives the cores back, at the end of the process; nothing may use the device
// afterwards.
void shut_down();

// Cores that are visible to this process; 0 when there is no device. Never initialises anything
// and never throws.
int device_count();
// Why device_count() is 0, in one sentence with what to do about it; "" otherwise.
std::string why_no_device();

// Claims the cores on first use. Throws Error: no device, a forked child, cores in use.
void initialize();
bool initialized();
// True in a child that was forked after initialize(): the device can't be used there.
bool in_bad_fork();
// False when the process ends or was forked: handles of the runtime are left alone.
bool handles_live();
// Throws Error unless this process has claimed the device; gives its nrt core number.
int core_of(int device);

int current_device();
int exchange_device(int device);  // gives the one before; throws Error if there is no such device

// HBM bytes of a device's core; claims the cores.
size_t total_memory(int device);
// Instance family of this host, NRT_INSTANCE_*.
uint32_t instance_family();
// The compiler's name for it: "trn1", "trn2", ...
const char* compile_target();

}  // namespace tnx
