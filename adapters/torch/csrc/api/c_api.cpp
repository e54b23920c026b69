// SPDX-License-Identifier: Apache-2.0
// The plain C interface that the Python package calls through ctypes, which releases the GIL around
// each call: the GIL always comes before the engine's lock.
//
// Pointers to StorageImpl and TensorImpl are those of `_cdata`; the caller keeps the object alive.
// Functions that can fail return null, or a text the caller frees with spillway_free: "user: ..."
// for what the person can mend, "internal: ..." for our own failures, "memory: ..." for a storage
// that cannot be brought back.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/op_facts.hpp"
#include "session/adoption.hpp"
#include "session/at_exit.hpp"
#include "session/awaited_card.hpp"
#include "session/card.hpp"
#include "session/made_storages.hpp"
#include "session/small_versions.hpp"
#include "session/watch.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/exec/frame_scope.hpp"

#define SPILLWAY_API extern "C" __attribute__((visibility("default")))

namespace spillway::torch {

namespace {

char* copy(const std::string& text) { return ::strdup(text.c_str()); }

template <class Function>
char* report(Function&& function) noexcept {
  try {
    function();
    return nullptr;
  } catch (const UserError& error) {
    return copy(std::string("user: ") + error.what());
  } catch (const runtime::OutOfBudget& error) {
    return copy(std::string("memory: ") + error.what());
  } catch (const c10::OutOfMemoryError& error) {  // of our allocator, called as torch calls it
    return copy(std::string("memory: ") + error.what_without_backtrace());
  } catch (const std::exception& error) {
    return copy(std::string("internal: ") + error.what());
  }
}

// The frames that spillway_begin_frame began, outermost first.
thread_local std::vector<runtime::FrameScope> t_frames;

// Before the first start nothing is managed, and a question makes no engine.
bool is_started() { return Engines::made() != nullptr; }

// What code that is no op does to a storage on the card, it does in the stream that is current.
void enter_stream() {
  Card* const card = is_started() ? Engines::get().card() : nullptr;
  if (card != nullptr) static_cast<void>(card->enter_stream(main_engine()));
}

runtime::Settings settings_of(const char* json) {
  std::vector<runtime::NameValue> variables;
  const nlohmann::json settings = nlohmann::json::parse(json);
  for (const auto& [name, value] : settings.items()) {
    variables.emplace_back(name, value.get<std::string>());
  }
  return runtime::settings_from_environment(variables);
}

char* failed() {
  const bool shortage = runtime::Engine::last_failure_kind() == runtime::FailureKind::kShortage;
  return copy((shortage ? "memory: " : "disk: ") + runtime::Engine::last_failure());
}

}  // namespace

}  // namespace spillway::torch

using spillway::torch::Engines;
using spillway::torch::main_engine;
using spillway::torch::Watch;

/// 0 if this library was built for torch `major`.`minor`, else the minor it was built for.
SPILLWAY_API int spillway_check_torch(int major, int minor) {
  return major == TORCH_VERSION_MAJOR && minor == TORCH_VERSION_MINOR ? 0 : TORCH_VERSION_MINOR;
}

SPILLWAY_API void spillway_free(char* text) { std::free(text); }

/// Starts with the settings of a JSON object whose keys are variable names ("SPILLWAY_BUDGET").
SPILLWAY_API char* spillway_start(const char* json) {
  return spillway::torch::report([&] { Watch::start(spillway::torch::settings_of(json)); });
}

/// See card_budget_of. `answer` is set to a CardBudget.
SPILLWAY_API char* spillway_card_budget(const char* json, int* answer) {
  return spillway::torch::report([&] {
    const auto settings = spillway::torch::settings_of(json);
    *answer = static_cast<int>(spillway::torch::card_budget_of(settings));
  });
}

/// See await_card.
SPILLWAY_API char* spillway_await_card(const char* json, int (*begin)()) {
  return spillway::torch::report(
      [&] { spillway::torch::await_card(spillway::torch::settings_of(json), begin); });
}

/// See end_waiting_for_card, and refuse_card.
SPILLWAY_API void spillway_end_waiting(int refused) {
  if (refused != 0) {
    spillway::torch::refuse_card();
  } else {
    spillway::torch::end_waiting_for_card();
  }
}

SPILLWAY_API char* spillway_stop() {
  return spillway::torch::report([] {
    spillway::torch::end_waiting_for_card();
    if (spillway::torch::is_started()) Watch::get().stop();
  });
}

/// Whether anything was ever managed: before that there are no statistics.
SPILLWAY_API int spillway_is_started() { return spillway::torch::is_started() ? 1 : 0; }

SPILLWAY_API char* spillway_statistics() {
  return spillway::torch::copy(spillway::runtime::to_json(main_engine().statistics()));
}

/// See Engine::budget_page. Empty for a graphics card's: each process states its own.
SPILLWAY_API char* spillway_budget_page() {
  if (Engines::get().card() != nullptr) return spillway::torch::copy("");
  return spillway::torch::copy(main_engine().budget_page());
}

/// Whether the storages that are managed lie on a graphics card.
SPILLWAY_API int spillway_holds_a_card() {
  return spillway::torch::is_started() && Engines::get().card() != nullptr ? 1 : 0;
}

/// An optimizer's step begins.
SPILLWAY_API void spillway_note_step() {
  if (spillway::torch::is_started()) Watch::get().note_optimizer_step();
}

/// The interpreter ends. `out_of_memory`: for an error of ours that nobody caught. `now`: no
/// handler of exit will run, so what is to be written is written now.
SPILLWAY_API void spillway_end(int out_of_memory, int now) {
  using spillway::runtime::Ending;
  if (!spillway::torch::is_started()) return;
  spillway::torch::end_process(out_of_memory != 0 ? Ending::kOutOfMemory : Ending::kOther,
                               now != 0);
}

SPILLWAY_API void spillway_reset_peak() {
  if (spillway::torch::is_started()) main_engine().reset_peak();
}

SPILLWAY_API void spillway_keep_gradients(int keep) { Watch::keep_gradients = keep != 0; }

SPILLWAY_API void spillway_keep_made(int keep) { Watch::keep_made = keep != 0; }

/// 0 once nothing is left for spillway_adopt.
SPILLWAY_API int spillway_may_be_older() { return spillway::torch::may_be_older() ? 1 : 0; }

/// Takes tensors that are older than the allocator into its memory, see adoption.hpp: `count` of
/// them, each of which an object of Python holds. Called with the GIL held. Returns what to say of
/// those that stay where they are, or null.
SPILLWAY_API char* spillway_adopt(c10::TensorImpl* const* tensors, std::size_t count) {
  const std::string left = spillway::torch::adopt({tensors, count});
  return left.empty() ? nullptr : spillway::torch::copy(left);
}

/// See Watch::wake.
SPILLWAY_API void spillway_wake() {
  if (spillway::torch::is_started()) Watch::get().wake();
}

/// See Watch::never_rest.
SPILLWAY_API void spillway_never_rest() {
  Watch::never_rest();
  spillway_wake();
}

/// See Engine::show_addresses.
SPILLWAY_API void spillway_show_addresses(int shown) {
  if (spillway::torch::is_started()) main_engine().show_addresses(shown != 0);
}

/// Brings a storage back. `use` is 0 or 1 for code that reads or writes it before it returns: the
/// calling thread's next op, or two more such calls, let go of it. 2: its address leaves torch. It
/// stays until the thread's next op, and counts as written at any time from now on.
SPILLWAY_API char* spillway_touch(void* storage_impl, int use) {
  auto& storage = *static_cast<c10::StorageImpl*>(storage_impl);
  const auto found = Engines::find_bound(storage);
  if (!found) {
    if (use != 0) spillway::torch::expect_unseen_small_writes(storage);
    return nullptr;
  }
  auto& engine = found.engine();
  spillway::torch::enter_stream();
  using spillway::runtime::Access;
  if (use != 0) engine.expect_unseen_writes(*found.record);
  const bool ready = use == 2
                         ? engine.give_address(*found.record)
                         : engine.touch(*found.record, use == 1 ? Access::kWrite : Access::kRead);
  return ready ? nullptr : spillway::torch::failed();
}

/// See manage_made_storage.
SPILLWAY_API char* spillway_manage_made(void* storage_impl, int keep_contents) {
  return spillway::torch::report([&] {
    spillway::torch::manage_made_storage(*static_cast<c10::StorageImpl*>(storage_impl),
                                         keep_contents != 0);
  });
}

/// See serve_when_resized.
SPILLWAY_API void spillway_serve_when_resized(void* storage_impl) {
  spillway::torch::serve_when_resized(*static_cast<c10::StorageImpl*>(storage_impl));
}

/// See DeviceEngine::release_tensor.
SPILLWAY_API void spillway_release_tensor(void* storage_impl) {
  auto& storage = *static_cast<c10::StorageImpl*>(storage_impl);
  const auto found = Engines::find(storage);
  if (found) found.device->release_tensor(*found.record, storage);
}

/// The storage never moves until released.
SPILLWAY_API char* spillway_keep(void* storage_impl) {
  const auto found = Engines::find_bound(*static_cast<c10::StorageImpl*>(storage_impl));
  spillway::torch::enter_stream();
  return !found || found.engine().keep(*found.record) ? nullptr : spillway::torch::failed();
}

SPILLWAY_API void spillway_release(void* storage_impl) {
  const auto found = Engines::find(*static_cast<c10::StorageImpl*>(storage_impl));
  if (found) found.engine().release(*found.record);
}

/// Keeps (or releases) the storage that `address` lies in; nothing for memory that is not ours. For
/// callers that know an address alone: a device copies from the physical pages behind it.
SPILLWAY_API char* spillway_keep_address(const void* address, int kept) {
  const auto found = Engines::find_at(address);
  if (!found) return nullptr;
  if (kept == 0) {
    found.engine().release(*found.record);
    return nullptr;
  }
  spillway::torch::enter_stream();
  return found.engine().keep(*found.record) ? nullptr : spillway::torch::failed();
}

/// A frame of the calling thread around code whose stores no op shows (compiled graphs); an empty
/// one where ops are not watched. `begun` is set to 1 once there is one to end, so that an
/// exception that hits Python right after this call loses nothing.
SPILLWAY_API char* spillway_begin_frame(const char* name, int* begun) {
  return spillway::torch::report([&] {
    spillway::runtime::this_thread_frames();  // made first, so that it outlives the scopes
    auto& frames = spillway::torch::t_frames;
    frames.emplace_back();
    *begun = 1;
    if (!spillway::torch::is_started()) return;
    auto& engine = main_engine();
    if (engine.watching()) {
      spillway::torch::enter_stream();
      frames.back().begin(engine, {.name = name, .signature = 0, .boundary = false});
    }
  });
}

SPILLWAY_API char* spillway_use(void* storage_impl, int written) {
  auto& storage = *static_cast<c10::StorageImpl*>(storage_impl);
  const auto found = Engines::find_bound(storage);
  if (!found) {
    if (written != 0) spillway::torch::begin_small_version(storage);
    return nullptr;
  }
  spillway::torch::enter_stream();
  using spillway::runtime::Access;
  return found.engine().use(*found.record, written != 0 ? Access::kWrite : Access::kRead)
             ? nullptr
             : spillway::torch::failed();
}

/// Ends what the calling thread began last. The arguments are those of a context manager's
/// `__exit__`, which this is, and are not looked at.
SPILLWAY_API void spillway_end_frame(void*, void*, void*) {
  if (!spillway::torch::t_frames.empty()) spillway::torch::t_frames.pop_back();
}

/// For the tests that make the table of safe composites, see op_facts.hpp.
SPILLWAY_API void spillway_set_transparent(const char* names) {
  spillway::torch::set_transparent_ops(names);
}

SPILLWAY_API char* spillway_transparent_seen() {
  return spillway::torch::copy(spillway::torch::take_transparent_ops_seen());
}
