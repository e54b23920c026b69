// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/shared_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
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

void* map(int descriptor, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

[[noreturn]] void throw_create_error(const char* name, const char* step) {
  throw UserError(
      fmt::format("no shared page {}: {} failed: {}", name, step, std::strerror(errno)));
}

// The path comes from the environment, or its process is gone: it may by now name anything.
bool is_page(const std::string& path, const char* name) {
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  return !error && target.starts_with(fmt::format("/memfd:{} ", name));
}

}  // namespace

SharedPage SharedPage::create(const char* name, std::size_t bytes) {
  Descriptor descriptor(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) throw_create_error(name, "memfd_create");
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    throw_create_error(name, "ftruncate");
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw_create_error(name, "sealing");
  }
  SharedPage page;
  page.memory_ = map(descriptor.get(), bytes);
  if (page.memory_ == nullptr) throw_create_error(name, "mmap");
  page.bytes_ = bytes;
  page.descriptor_ = descriptor.release();
  page.path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), page.descriptor_);
  return page;
}

SharedPage SharedPage::open(const std::string& path, const char* name, std::size_t bytes) {
  if (!is_page(path, name)) return {};
  Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (descriptor.get() < 0 || ::fstat(descriptor.get(), &status) != 0 ||
      status.st_size != static_cast<off_t>(bytes)) {
    return {};
  }
  SharedPage page;
  page.memory_ = map(descriptor.get(), bytes);
  if (page.memory_ == nullptr) return {};
  page.bytes_ = bytes;
  page.path_ = path;
  return page;
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::exchange(other.path_, {})) {}

SharedPage& SharedPage::operator=(SharedPage&& other) noexcept {
  SharedPage taken(std::move(other));
  std::swap(memory_, taken.memory_);
  std::swap(bytes_, taken.bytes_);
  std::swap(descriptor_, taken.descriptor_);
  std::swap(path_, taken.path_);
  return *this;
}

SharedPage::~SharedPage() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace spillway::runtime
