// SPDX-License-Identifier: Apache-2.0
#include "session/stale_pointer.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "session/engines.hpp"

namespace spillway::torch {

namespace {

struct sigaction g_previous;

// Only async-signal-safe calls from here on.
class SignalText {
 public:
  SignalText& operator<<(const char* text) {
    while (*text != '\0' && length_ < buffer_.size()) buffer_[length_++] = *text++;
    return *this;
  }
  SignalText& operator<<(std::uint64_t number) {
    std::array<char, 24> digits{};
    std::size_t position = digits.size() - 1;
    do {
      digits[--position] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    return *this << &digits[position];
  }
  void print() const {
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, buffer_.data(), length_);
  }

 private:
  std::array<char, 768> buffer_{};
  std::size_t length_ = 0;
};

void on_fault(int signal, siginfo_t* info, void* context) {
  // Whatever its state is by now: what an op uses does not fault.
  if (const Managed found = Engines::find_at(info->si_addr)) {
    const runtime::DeviceBlock* const block = found.record->block;
    const char* made_by = found.record->made_by.load();
    SignalText text;
    text
        << "Spillway: a stale pointer was used: storage " << to_value(found.record->id) << " of "
        << block->bytes << " bytes, made by " << (made_by == nullptr ? "unknown" : made_by)
        << (block->sealed ? ", was being evicted." : ", had been evicted.")
        << " Code that keeps a raw pointer must hold the tensor with spillway.resident(tensor), or "
           "its op be named in SPILLWAY_KEEP_OPS.\n";
    text.print();
  }
  // Whoever was there before decides what happens: Python's faulthandler, a debugger, the default.
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else {
    ::signal(signal, SIG_DFL);  // the access is repeated, and the process ends as it would have
  }
}

}  // namespace

void install_stale_pointer_message() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGSEGV, &action, &g_previous);
}

}  // namespace spillway::torch
