// SPDX-License-Identifier: Apache-2.0
// Which calls of scaled_dot_product_attention run as one program (lower/attention.cc); the others
// take torch's own path of separate operations.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

namespace tnx {
namespace {

// A mask that spreads over [batch, heads, queries, keys].
bool spreads(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  const int64_t whole[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
  if (mask.dim() > 4) {
    return false;
  }
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    const int64_t size = mask.size(-d);
    if (size != 1 && size != whole[4 - d]) {
      return false;
    }
  }
  return true;
}

bool shapes_fit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, bool gqa) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || query.numel() == 0 ||
      key.numel() == 0 || value.numel() == 0) {
    return false;
  }
  const bool heads = gqa ? query.size(1) % key.size(1) == 0 : query.size(1) == key.size(1);
  return heads && key.size(1) == value.size(1) && query.size(0) == key.size(0) &&
         key.size(0) == value.size(0) && key.size(2) == value.size(2) &&
         query.size(3) == key.size(3);
}

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout, bool causal,
               std::optional<double> /*scale*/, bool gqa) {
  const auto fits = [&] {
    if (query.layout() != at::kStrided || !at::globalContext().userEnabledOverrideableSDP() ||
        dropout != 0 || !shapes_fit(query, key, value, gqa)) {
      return false;
    }
    const auto type = query.scalar_type();
    if (key.scalar_type() != type || value.scalar_type() != type || !at::isFloatingType(type)) {
      return false;
    }
    if (!mask.has_value() || !mask->defined()) {
      return true;
    }
    return !causal && mask->device() == query.device() && spreads(*mask, query, key) &&
           (mask->scalar_type() == at::kBool || mask->scalar_type() == type);
  };
  return static_cast<int64_t>(fits() ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

int64_t choose_op(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const std::optional<at::Tensor>& mask, double dropout, bool causal,
                  std::optional<double> scale, bool gqa) {
  return choose(query, key, value, mask, dropout, causal, scale, gqa);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_fused_sdp_choice", &choose_op); }

}  // namespace
}  // namespace tnx

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tnx::choose)
}  // namespace at::native
