// SPDX-License-Identifier: Apache-2.0
// Python's global lock, without being linked with Python: libtorch programs have none, and its ABI
// differs between versions. These functions do not, from 3.10 to 3.13.
#include "threads/interpreter_lock.hpp"

#include <dlfcn.h>

namespace spillway::torch {

namespace {

template <typename Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

struct Interpreter {
  int (*is_initialized)() = symbol<int()>("Py_IsInitialized");
  void* (*state_of_this_thread)() = symbol<void*()>("PyGILState_GetThisThreadState");
  void* (*state_that_runs)() = symbol<void*()>("_PyThreadState_UncheckedGet");
  void* (*let_go)() = symbol<void*()>("PyEval_SaveThread");
  void (*take)(void*) = symbol<void(void*)>("PyEval_RestoreThread");

  Interpreter() {
    // Its public name from 3.13 on.
    if (state_that_runs == nullptr) state_that_runs = symbol<void*()>("PyThreadState_GetUnchecked");
  }
  [[nodiscard]] bool is_here() const {
    return is_initialized != nullptr && state_of_this_thread != nullptr &&
           state_that_runs != nullptr && let_go != nullptr && take != nullptr &&
           is_initialized() != 0;
  }
  // Up to 3.11 what runs is the holder of the lock, on whatever thread, afterwards this thread's.
  // (PyGILState_Check says yes to everybody once there was a subinterpreter.)
  [[nodiscard]] bool runs_this_thread() const {
    void* const state = state_of_this_thread();
    return state != nullptr && state == state_that_runs();
  }
};

thread_local std::uint64_t t_times = 0;

}  // namespace

std::uint64_t times_interpreter_was_let_go() { return t_times; }

// Looked up each time: a program may load Python late, and a wait takes longer.
void* let_go_of_interpreter() {
  const Interpreter python;
  if (!python.is_here() || !python.runs_this_thread()) return nullptr;
  ++t_times;
  return python.let_go();
}

void take_interpreter_again(void* held) { Interpreter().take(held); }

}  // namespace spillway::torch
