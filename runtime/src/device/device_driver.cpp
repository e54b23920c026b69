// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/device_driver.hpp"

#include <fmt/format.h>

namespace spillway::runtime {

void expect_done(const DeviceDriver& driver, DeviceStatus status, std::string_view doing) {
  if (status.done()) return;
  const char* const advice =
      status.outcome == DeviceOutcome::kLost
          ? "It cannot be used any more in this process: end the program and start it again."
          : "Nothing can go on without it.";
  throw DeviceFailure(fmt::format("The device {} failed while {}: {}. {}", driver.facts().name,
                                  doing, driver.text(status), advice));
}

}  // namespace spillway::runtime
