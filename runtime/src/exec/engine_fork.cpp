// SPDX-License-Identifier: Apache-2.0
// The engine in a forked child (DataLoader workers above all).
//
// The child gets copies of the parent's pages, but neither its transfer threads nor the right to
// write the spool file. So it manages nothing: new memory comes from malloc, frees of the parent's
// blocks are ignored, and a storage that was evicted is read from the inherited descriptor when it
// is used. The parent does not reuse those extents while a child may still read them: each fork
// opens a pipe whose writing end only children hold, and it reports end-of-file when they are gone.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine_lock.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

void Engine::before_fork() {
  if (!in_child_) fork_gate_.close();
  mutex_.lock();
  if (in_child_) return;
  std::unique_lock lock(mutex_, std::adopt_lock);
  // Direct I/O in flight over a fork may land in the wrong process's pages.
  while (mover_.in_flight() != 0) settled_.wait(lock);
  drain_freed();
  memory_.before_fork();
  lock.release();
  mover_.transfers().before_fork();
  if (mover_.spool() == nullptr) return;
  std::array<int, 2> ends{-1, -1};
  // Without a pipe (no descriptors left) the generation never ends: its extents are not reused.
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  mover_.spool()->begin_fork_generation(ends[0]);
  fork_pipe_write_ = ends[1];
}

void Engine::after_fork_in_parent() {
  if (fork_pipe_write_ >= 0) ::close(fork_pipe_write_);
  fork_pipe_write_ = -1;
  mutex_.unlock();
  if (!in_child_) fork_gate_.open();
}

void Engine::after_fork_in_child() {
  // The writing end stays open for the child's life: its closing is the signal.
  fork_pipe_write_ = -1;
  in_child_ = true;
  slot_.store(nullptr);
  sharing_ = false;  // it claims what it holds, and follows no limit
  shared_.forked_begin();
  recorder_.store(nullptr);  // another thread may have held its lock
  waiting_.store(0);         // those who waited exist in the parent alone
  fork_gate_.open_in_child();
  mover_.abandon_in_child();
  mutex_.unlock();
}

std::byte* Engine::allocate_in_child(std::size_t bytes) {
  void* pointer = nullptr;
  if (::posix_memalign(&pointer, 64, bytes) != 0) {
    OutOfBudget::Facts facts;
    facts.need = {bytes};
    facts.refused = "It is a forked process, whose memory comes from malloc.";
    facts.also_known_as = framework_.shortage_words("").also_known_as;
    throw OutOfBudget(std::move(facts));
  }
  shared_.forked_hold(static_cast<std::int64_t>(::malloc_usable_size(pointer)));
  return static_cast<std::byte*>(pointer);
}

bool Engine::use_in_child(StorageRecord& record, Access) {
  const std::lock_guard lock(mutex_);
  const ResidencyState state = record.state.load();
  if (state != ResidencyState::kOnDisk && state != ResidencyState::kOnHost) return true;
  if (!mover_.read_in_child(record)) {
    set_last_failure("Spillway: a forked process could not read an evicted storage back",
                     FailureKind::kUnreadable);
    return false;
  }
  record.state.store(ResidencyState::kResident);
  shared_.forked_hold(static_cast<std::int64_t>(record.bytes.count));  // and never let go
  if (void* owner = record.owner.load()) framework_.grant(owner, record);
  return true;
}

}  // namespace spillway::runtime
