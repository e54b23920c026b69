// SPDX-License-Identifier: Apache-2.0
#include "values/stand_in.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <exception>
#include <memory>
#include <utility>

#include "values/twins.hpp"

namespace spillway::standin {

namespace {

template <class Signature>
Signature* exported(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  TORCH_CHECK(found != nullptr, "no stand-in card in this process: see tests/standin/run.py");
  return reinterpret_cast<Signature*>(found);
}

c10::Stream current_stream() {
  const c10::impl::VirtualGuardImpl card(c10::kCUDA);
  return card.getStream(card.getDevice());
}

struct Work {
  std::string op;
  std::function<void()> work;
};

void perform(void* argument) {
  const auto* const task = static_cast<const Work*>(argument);
  try {
    const Unseen unseen;
    task->work();
  } catch (const c10::Error& error) {
    functions().lose(task->op + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    functions().lose(task->op + ": " + error.what());
  }
}

void drop(void* argument) { delete static_cast<Work*>(argument); }

}  // namespace

Functions::Functions()
    : launch_(exported<decltype(stand_in_launch)>("stand_in_launch")),
      lose_(exported<decltype(stand_in_lose)>("stand_in_lose")),
      distance_(exported<decltype(stand_in_distance)>("stand_in_distance")()) {}

int Functions::launch(void* stream, const std::vector<StandInAccess>& reached, void (*work)(void*),
                      void (*drop)(void*), void* argument) const {
  return launch_(stream, reached.data(), reached.size(), work, drop, argument);
}

void Functions::lose(const std::string& why) const { lose_(why.c_str()); }

const Functions& functions() {
  static const Functions kFunctions;
  return kFunctions;
}

bool cards_are_peers() {
  static auto* const kAsk = exported<int(int*, int, int)>("cudaDeviceCanAccessPeer");
  int can = 0;
  return kAsk(&can, 0, 1) == 0 && can != 0;
}

void enqueue(const std::string& op, const std::vector<StandInAccess>& reached,
             std::function<void()> work) {
  auto task = std::make_unique<Work>(Work{op, std::move(work)});
  const int code = functions().launch(current_stream().native_handle(), reached, &perform, &drop,
                                      task.release());
  TORCH_CHECK(code == 0, "the stand-in card refuses ", op, " with error ", code);
}

void run_and_wait(const std::string& op, const std::vector<StandInAccess>& reached,
                  const std::function<void()>& work) {
  std::exception_ptr thrown;
  enqueue(op, reached, [&] {
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  });
  current_stream().synchronize();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace spillway::standin
