// SPDX-License-Identifier: Apache-2.0
// Modules of a wanted number of instructions, for measuring how the compiler scales.
#pragma once

#include <cstdint>

#include "opennrt/nrtcc.h"

namespace onrt::bench {

struct Shape {
  const char* name;
  const char* title;
  void (*fill)(nrtcc_graph_t* graph, int64_t instructions);
  bool proportional;  // the program grows as the module does
};

// Each operation needs the one before.
void fill_chain(nrtcc_graph_t* graph, int64_t instructions);
// Independent leaves, made first, then added in pairs: half of all values live at once.
void fill_tree(nrtcc_graph_t* graph, int64_t instructions);
// Layers of dot, bias and maximum, then the gradients back through all of them.
void fill_layers(nrtcc_graph_t* graph, int64_t instructions);
// The same with arrays that are large enough to be made slice by slice.
void fill_large_layers(nrtcc_graph_t* graph, int64_t instructions);
// Weights and two moments of each, updated in their own memory, as an optimiser does.
void fill_updates(nrtcc_graph_t* graph, int64_t instructions);

inline constexpr Shape kShapes[] = {
    {"chain", "a chain", fill_chain, true},
    {"tree", "a wide tree", fill_tree, true},
    {"layers", "layers and their gradients", fill_layers, true},
    {"large_layers", "large layers and their gradients", fill_large_layers, false},
    {"updates", "updates of weights", fill_updates, true},
};

// About `instructions` of them. `graph` is the caller's to destroy; null on failure.
nrtcc_status_t make_module(const Shape& shape, int64_t instructions, nrtcc_graph_t** graph);

}  // namespace onrt::bench
