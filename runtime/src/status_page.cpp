// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/status_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

/// Closes a descriptor that nobody has taken over.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  [[nodiscard]] int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

StatusPage* map_page(int descriptor) {
  void* const memory =
      ::mmap(nullptr, sizeof(StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<StatusPage*>(memory);
}

[[noreturn]] void throw_create_error(const char* step) {
  throw UserError(
      fmt::format("no shared page for the status: {} failed: {}", step, std::strerror(errno)));
}

}  // namespace

StatusMapping StatusMapping::create() {
  Descriptor descriptor(::memfd_create("spillway-status", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) throw_create_error("memfd_create");
  if (::ftruncate(descriptor.get(), sizeof(StatusPage)) != 0) throw_create_error("ftruncate");
  // A descendant that cut the page short would kill every other with SIGBUS.
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw_create_error("sealing");
  }
  StatusMapping mapping;
  mapping.page_ = map_page(descriptor.get());
  if (mapping.page_ == nullptr) throw_create_error("mmap");
  mapping.descriptor_ = descriptor.release();
  mapping.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), mapping.descriptor_);
  mapping.page_->version.store(kStatusVersion, std::memory_order_release);
  return mapping;
}

StatusMapping StatusMapping::open(const std::string& path) {
  // The path comes from the environment: it may by now name anything, a pipe without a reader too.
  Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(sizeof(StatusPage))) {
    return {};
  }
  StatusMapping mapping;
  mapping.page_ = map_page(descriptor.get());
  if (mapping.page_ == nullptr ||
      mapping.page_->version.load(std::memory_order_acquire) != kStatusVersion) {
    return {};
  }
  mapping.path_ = path;
  return mapping;
}

StatusMapping::StatusMapping(StatusMapping&& other) noexcept
    : page_(std::exchange(other.page_, nullptr)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::exchange(other.path_, {})) {}

StatusMapping& StatusMapping::operator=(StatusMapping&& other) noexcept {
  StatusMapping taken(std::move(other));
  std::swap(page_, taken.page_);
  std::swap(descriptor_, taken.descriptor_);
  std::swap(path_, taken.path_);
  return *this;
}

StatusMapping::~StatusMapping() {
  if (page_ != nullptr) ::munmap(page_, sizeof(StatusPage));
  if (descriptor_ >= 0) ::close(descriptor_);
}

StatusSlot* StatusMapping::claim_slot() const {
  if (page_ == nullptr) return nullptr;
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (StatusSlot& slot : page_->slots) {
    if (slot.pid.load(std::memory_order_relaxed) == self) return &slot;
  }
  for (StatusSlot& slot : page_->slots) {
    std::uint32_t free = 0;
    if (slot.pid.compare_exchange_strong(free, self, std::memory_order_relaxed)) return &slot;
  }
  return nullptr;
}

}  // namespace spillway::runtime
