// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/shared_budget.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace spillway::runtime {

namespace {

// A member's claim grows by at least this: each growth makes the root look at the page.
constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
// Less than this of its own is not worth a claim: most loader workers stay below it.
constexpr std::uint64_t kNegligible = std::uint64_t{1} << 20;
// A root that holds less than this share of the total is one that only waits for its members.
constexpr std::uint64_t kIdleShare = 16;

constexpr const char* kName = "spillway-budget";
constexpr const char* kTarget = "/memfd:spillway-budget";

/// A process that has ended, reaped or not.
bool is_gone(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t end = text.rfind(')');  // of the name, which may hold anything
  return end == std::string::npos || end + 2 >= text.size() || text[end + 2] == 'Z';
}

}  // namespace

void SharedBudget::lead(Bytes total) {
  if (page_ == nullptr) {
    const int descriptor = ::memfd_create(kName, MFD_CLOEXEC);
    if (descriptor < 0) return;
    void* memory = MAP_FAILED;
    if (::ftruncate(descriptor, sizeof(Page)) == 0) {
      memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    if (memory == MAP_FAILED) {
      ::close(descriptor);
      return;
    }
    page_ = static_cast<Page*>(memory);  // the descriptor stays open: members find the page by it
    path_ = fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor);
  }
  if (member_) return;
  page_->total.store(total.count);
  page_->version.fetch_add(1);
}

bool SharedBudget::join(const std::string& path) {
  if (page_ != nullptr) return true;
  // The root may be gone and its number another process's.
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  if (error || !target.starts_with(kTarget)) return false;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool whole = ::lseek(descriptor, 0, SEEK_END) == static_cast<off_t>(sizeof(Page));
  void* memory =
      whole ? ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
            : MAP_FAILED;
  ::close(descriptor);
  if (memory == MAP_FAILED) return false;
  page_ = static_cast<Page*>(memory);
  member_ = true;
  if (take_slot()) return true;
  ::munmap(memory, sizeof(Page));
  page_ = nullptr;
  member_ = false;
  return false;
}

bool SharedBudget::take_slot() {
  for (Slot& slot : page_->slots) {
    std::int32_t free = 0;
    if (!slot.pid.compare_exchange_strong(free, ::getpid())) continue;
    slot_ = &slot;
    return true;
  }
  return false;
}

Bytes SharedBudget::total() const { return {page_ == nullptr ? 0 : page_->total.load()}; }

Bytes SharedBudget::claimed_by_others() const {
  Bytes sum{};
  if (!is_root()) return sum;
  for (const Slot& slot : page_->slots) {
    if (slot.pid.load() != 0) sum += Bytes{slot.claim.load()};
  }
  return sum;
}

std::uint64_t SharedBudget::equal_part() const {
  const std::uint64_t total = page_->total.load();
  std::uint64_t parts = is_root() || page_->root_used.load() > total / kIdleShare ? 1 : 0;
  for (const Slot& slot : page_->slots) {
    if (slot.pid.load() != 0 && (&slot == slot_ || slot.claim.load() != 0)) ++parts;
  }
  return total / std::max<std::uint64_t>(parts, 1);
}

Bytes SharedBudget::limit() {
  version_ = page_->version.load();
  if (member_) return {std::min(slot_->claim.load(), equal_part())};
  const Bytes rest = saturating_sub({page_->total.load()}, claimed_by_others());
  return std::max(rest, Bytes{equal_part()});
}

void SharedBudget::set_claim(std::uint64_t bytes) {
  slot_->claim.store(bytes);
  page_->version.fetch_add(1);
}

bool SharedBudget::claim(Bytes needed) {
  if (!is_member()) return false;
  const std::uint64_t claimed = slot_->claim.load();
  const std::uint64_t part = equal_part();
  if (claimed >= part) return false;
  set_claim(std::min(part, claimed + std::max({needed.count, claimed / 4, kStep})));
  return true;
}

void SharedBudget::bury() {
  if (!is_root()) return;
  for (Slot& slot : page_->slots) {
    const std::int32_t pid = slot.pid.load();
    if (pid == 0 || !is_gone(pid)) continue;
    slot.claim.store(0);
    slot.pid.store(0);
    page_->version.fetch_add(1);
  }
}

void SharedBudget::forked_begin() {
  slot_ = nullptr;
  member_ = true;
  path_.clear();
  forked_held_.store(0);
}

void SharedBudget::forked_hold(std::int64_t bytes) noexcept {
  if (page_ == nullptr) return;
  const std::int64_t before = forked_held_.fetch_add(bytes);
  const auto steps = [](std::int64_t held) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(held, 0)) / kNegligible;
  };
  if (steps(before) == steps(before + bytes)) return;
  if (slot_ == nullptr && !take_slot()) return;  // threads that race here claim the same
  set_claim(steps(before + bytes) * kNegligible);
}

}  // namespace spillway::runtime
