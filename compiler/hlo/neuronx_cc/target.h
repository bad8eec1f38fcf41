// SPDX-License-Identifier: Apache-2.0
// The instance family to compile for when --target is absent.
#pragma once

#include <string>
#include <string_view>

namespace onrt::cc {

// "trn1.32xlarge" -> "trn1"; "" for a product that is no Neuron instance.
std::string target_of_product(std::string_view product_name);

// That of this machine by its DMI product name, else "trn2".
std::string default_target();

}  // namespace onrt::cc
