// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/parking.h"

namespace onrt {

Parking& Parking::instance() {
  // Never destroyed: threads may still wait while the process ends.
  static Parking* const kInstance = new Parking;
  return *kInstance;
}

}  // namespace onrt
