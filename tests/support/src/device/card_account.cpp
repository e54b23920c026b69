// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/card_account.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <span>

#include "spillway/base/error.hpp"

namespace spillway::testing {

class CardAccount::FileLock {
 public:
  explicit FileLock(int file) : file_(file) {
    if (file_ >= 0) SPILLWAY_CHECK(::flock(file_, LOCK_EX) == 0, "no lock on the account");
  }
  ~FileLock() {
    if (file_ >= 0) ::flock(file_, LOCK_UN);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

CardAccount::CardAccount(Bytes memory, const std::string& file) : memory_(memory) {
  constexpr std::size_t kSize = kMembers * sizeof(Member);
  int flags = MAP_SHARED | MAP_ANONYMOUS;
  if (!file.empty()) {
    file_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    SPILLWAY_CHECK(file_ >= 0 && ::ftruncate(file_, kSize) == 0, "no file for the account");
    flags = MAP_SHARED;
  }
  void* const mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, flags, file_, 0);
  SPILLWAY_CHECK(mapped != MAP_FAILED, "the account cannot be mapped");
  members_ = static_cast<Member*>(mapped);
  const FileLock lock(file_);
  const std::span all(members_, kMembers);
  const auto vacant = std::ranges::find_if(all, [](const Member& member) {
    return member.process == 0 || ::kill(static_cast<pid_t>(member.process), 0) != 0;
  });
  SPILLWAY_CHECK(vacant != all.end(), "too many processes share the card");
  own_ = &*vacant;
  *own_ = {::getpid(), 0};
}

CardAccount::~CardAccount() {
  own_->process = 0;
  ::munmap(members_, kMembers * sizeof(Member));
  if (file_ >= 0) ::close(file_);
}

Bytes CardAccount::taken_by_others() const {
  Bytes taken{};
  for (const Member& member : std::span(members_, kMembers)) {
    const bool lives = member.process != 0 && ::kill(static_cast<pid_t>(member.process), 0) == 0;
    if (&member != own_ && lives) taken += Bytes{member.bytes};
  }
  return taken;
}

bool CardAccount::take(Bytes bytes) {
  const FileLock lock(file_);
  if (taken_by_others() + used() + bytes > memory_) return false;
  own_->bytes += bytes.count;
  return true;
}

void CardAccount::give_back(Bytes bytes) {
  const FileLock lock(file_);
  own_->bytes -= bytes.count;
}

Bytes CardAccount::free() const {
  const FileLock lock(file_);
  return saturating_sub(memory_, taken_by_others() + used());
}

Bytes CardAccount::used() const { return {own_->bytes}; }

}  // namespace spillway::testing
