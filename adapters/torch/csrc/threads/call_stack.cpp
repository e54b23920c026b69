// SPDX-License-Identifier: Apache-2.0
#include "threads/call_stack.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::torch {

namespace {

struct Frame {
  std::uintptr_t address;
  const void* library = nullptr;  // where it is loaded; null where no library is known
  std::string_view path{};        // of the library
  std::string_view symbol{};      // exported, mangled; empty if there is none
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* addresses) {
  static_cast<std::vector<std::uintptr_t>*>(addresses)->push_back(_Unwind_GetIP(context));
  return _URC_NO_REASON;
}

// Newest first. Empty unless the stack could be followed to its bottom, which is marked by a return
// address of 0: where a frame can't be unwound, its own address is the last.
std::vector<Frame> frames_of_this_thread() {
  std::vector<std::uintptr_t> addresses;
  addresses.reserve(128);
  _Unwind_Backtrace(add_frame, &addresses);
  if (addresses.empty() || addresses.back() != 0) return {};
  addresses.pop_back();
  std::vector<Frame> frames;
  frames.reserve(addresses.size());
  for (const std::uintptr_t address : addresses) {
    Frame& frame = frames.emplace_back(Frame{.address = address});
    Dl_info info{};
    // A return address may be the first one after its function, if that never returns.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an instruction's address
    if (::dladdr(reinterpret_cast<void*>(address - 1), &info) == 0) continue;
    frame.library = info.dli_fbase;
    if (info.dli_fname != nullptr) frame.path = info.dli_fname;
    if (info.dli_sname != nullptr) frame.symbol = info.dli_sname;
  }
  return frames;
}

// The names that a library imports, exports and is linked to.
std::optional<std::string_view> names_of(const Frame& frame) {
  Dl_info info{};
  void* found = nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const address = reinterpret_cast<void*>(frame.address - 1);
  if (::dladdr1(address, &info, &found, RTLD_DL_LINKMAP) == 0 || found == nullptr) return {};
  const auto* map = static_cast<const link_map*>(found);
  if (map->l_ld == nullptr) return {};
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) begin = entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRSZ) size = entry->d_un.d_val;
  }
  if (begin == 0) return {};
  if (begin < map->l_addr) begin += map->l_addr;  // the loader has not relocated it
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return std::string_view(reinterpret_cast<const char*>(begin), size);
}

// Code that has to do with torch names it: namespaces at, c10 and torch in C++, torch's libraries,
// and the functions of its stable C interface.
bool uses_torch(const Frame& frame) {
  static constexpr std::array<std::string_view, 6> kNames = {"N2at",     "N3c10",  "N5torch",
                                                             "libtorch", "libc10", "aoti_torch"};
  const std::optional<std::string_view> names = names_of(frame);
  return !names || std::ranges::any_of(kNames, [&](std::string_view name) {
    return names->find(name) != std::string_view::npos;
  });
}

using Iterator = std::vector<Frame>::const_iterator;

Iterator skip_own(Iterator at, Iterator end) {
  const void* own = at == end ? nullptr : at->library;
  return std::find_if(at, end, [own](const Frame& frame) { return frame.library != own; });
}

bool none_uses_torch(Iterator at, Iterator end) {
  std::vector<std::pair<const void*, bool>> asked;
  return std::all_of(at, end, [&asked](const Frame& frame) {
    if (frame.library == nullptr) return false;
    for (const auto& [library, uses] : asked) {
      if (library == frame.library) return !uses;
    }
    return !asked.emplace_back(frame.library, uses_torch(frame)).second;
  });
}

// at::_ops::add_Tensor::call, mangled up to its arguments.
std::string entry_of(const at::RecordFunction& function) {
  const std::optional<c10::OperatorName> op = function.operator_name();
  if (!op) return {};
  std::string name = op->name.substr(op->name.find("::") + 2);
  if (!op->overload_name.empty()) name += "_" + op->overload_name;
  return "_ZN2at4_ops" + std::to_string(name.size()) + name + "4call";
}

bool is_dispatch(const Frame& frame) {
  return frame.symbol.starts_with("_ZN2at14RecordFunction") ||
         frame.symbol.starts_with("_ZN3c1010Dispatcher");
}

bool is_binding(const Frame& frame) {
  const std::string_view file = frame.path.substr(frame.path.rfind('/') + 1);
  return file.starts_with("libtorch_python.");
}

// Past the frames of the op that begins or ends, and of the binding that called it. The end if
// anything else called it, such as the kernel of another op.
Iterator skip_op(Iterator at, Iterator end, const at::RecordFunction& function) {
  const std::string entry = entry_of(function);
  if (entry.empty() || at == end || !is_dispatch(*at)) return end;
  at = std::find_if_not(at, end, is_dispatch);
  // Dispatcher::callWithDispatchKeySlowPath is not exported, and not always a function of its own.
  if (at != end && at->symbol.empty()) ++at;
  if (at == end || !at->symbol.starts_with(entry)) return end;
  ++at;
  if (at == end || !is_binding(*at)) return end;
  return std::find_if_not(at, end, is_binding);
}

}  // namespace

bool is_only_op(const at::RecordFunction& function) {
  const std::vector<Frame> frames = frames_of_this_thread();
  const auto caller = skip_op(skip_own(frames.begin(), frames.end()), frames.end(), function);
  return caller != frames.end() && none_uses_torch(caller, frames.end());
}

bool is_inside_no_op() {
  const std::vector<Frame> frames = frames_of_this_thread();
  const auto caller = skip_own(frames.begin(), frames.end());
  return caller != frames.end() && none_uses_torch(caller, frames.end());
}

}  // namespace spillway::torch
