// SPDX-License-Identifier: Apache-2.0
// The functions that TensorFlow calls: the plugin's entry, and the optimizer that sees every graph
// before it runs. C interface only.
//
// TensorFlow's optimizers run twice over a graph, plugins last each time. Pairs are put in the
// second time: fusions that TensorFlow makes in its second round would else differ, and with them
// the last bits of a result.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "card_session.hpp"
#include "cpu_allocator.hpp"
#include "session.hpp"
#include "spillway/base/error.hpp"
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/core/util/port.h"
#include "variable_ops.hpp"
#include "watched_device.hpp"
#include "work_listener.hpp"

namespace spillway::tf {
namespace {

constexpr int kRewriteOnCall = 2;

struct Calls {
  int count = 0;
};

void* make_optimizer() { return new Calls; }
void destroy_optimizer(void* optimizer) { delete static_cast<Calls*>(optimizer); }

std::string look_up_op(TF_FunctionLibraryDefinition* library, std::string_view op) {
  const std::unique_ptr<TF_Status, decltype(&TF_DeleteStatus)> status(TF_NewStatus(),
                                                                      TF_DeleteStatus);
  const std::unique_ptr<TF_Buffer, decltype(&TF_DeleteBuffer)> buffer(TF_NewBuffer(),
                                                                      TF_DeleteBuffer);
  TF_LookUpOpDef(library, std::string(op).c_str(), buffer.get(), status.get());
  if (TF_GetCode(status.get()) != TF_OK) return {};
  return {static_cast<const char*>(buffer->data), buffer->length};
}

void give(const std::string& graph, TF_Buffer* buffer) {
  auto* const data = static_cast<char*>(std::malloc(graph.size()));
  graph.copy(data, graph.size());
  buffer->data = data;
  buffer->length = graph.size();
  buffer->data_deallocator = [](void* memory, size_t) { std::free(memory); };
}

// By the session that there is, if any.
std::optional<std::string> rewrite(std::string_view graph, const OpCatalogue& catalogue) {
  if (CardSession* const card = CardSession::get()) return card->graphs().rewrite(graph, catalogue);
  Session* const session = Session::get();
  return session == nullptr ? std::nullopt : session->graphs().rewrite(graph, catalogue);
}

void optimize(void* optimizer, const TF_Buffer* graph, const TF_GrapplerItem* /*item*/,
              TF_Buffer* result, TF_Status* status) {
  // By convention "I did nothing": nobody is told.
  TF_SetStatus(status, TF_ABORTED, "nothing to do");
  if (++static_cast<Calls*>(optimizer)->count != kRewriteOnCall) return;
  TF_FunctionLibraryDefinition* const library = TF_NewFunctionLibraryDefinition(graph, status);
  if (TF_GetCode(status) != TF_OK) {
    TF_SetStatus(status, TF_ABORTED, "nothing to do");
    return;
  }
  const auto rewritten =
      rewrite({static_cast<const char*>(graph->data), graph->length},
              [library](std::string_view op) { return look_up_op(library, op); });
  TF_DeleteFunctionLibraryDefinition(library);
  TF_SetStatus(status, TF_ABORTED, "nothing to do");
  if (!rewritten) return;
  give(*rewritten, result);
  TF_SetStatus(status, TF_OK, "");
}

void start_for_processor(const runtime::Settings& settings) {
  Session::start(settings);
  register_cpu_allocator();
  register_variable_ops();
  listen_to_work(Session::get()->standstill());
  Session::get()->set_framework(std::string("tensorflow ") + TF_Version());
  if (!watch_devices(Session::get()->watcher())) Session::get()->note_ops_hidden();
}

void start_for_card(const runtime::Settings& settings) {
  if (!::tensorflow::IsGoogleCudaEnabled()) {
    throw UserError(
        "SPILLWAY_BUDGET: the budget is of a card, and this TensorFlow was built for the processor "
        "alone (tensorflow-cpu). Install a tensorflow that has CUDA, or give the processor's "
        "budget, such as 8GiB.");
  }
  CardSession::start(settings);
}

bool is_started() { return Session::get() != nullptr || CardSession::get() != nullptr; }

// What is wrong with the settings, for people; empty: nothing.
std::string start_session() {
  if (is_started()) return {};
  try {
    const auto settings = runtime::settings_from_environment(runtime::current_environment());
    if (settings.effective_mode() == runtime::Mode::kOff) return {};
    try {
      if (settings.budget_of == runtime::BudgetDevice::kCuda) {
        start_for_card(settings);
      } else {
        start_for_processor(settings);
      }
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      if (settings.strict) throw;
      std::fprintf(stderr, "spillway: not active: %s\n", error.what());
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

// As for PyTorch: a wrong setting ends the program, since it would else train without the limit.
void start_or_end_process() {
  const std::string trouble = start_session();
  if (trouble.empty()) return;
  std::fprintf(stderr, "spillway: error: %s\n", trouble.c_str());
  std::fflush(nullptr);
  ::_exit(2);
}

}  // namespace
}  // namespace spillway::tf

#define SPILLWAY_EXPORT extern "C" __attribute__((visibility("default")))

SPILLWAY_EXPORT void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status* status) {
  spillway::tf::start_or_end_process();
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  // TensorFlow shows an optimizer the graphs that have a device of its type.
  params->device_type = spillway::tf::CardSession::get() != nullptr ? "GPU" : "CPU";
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  // TensorFlow's own swapper must not work on the same tensors, nor its scheduling pass make of a
  // sum a variable to which terms are added as they come, in another order in every run
  // (SchedulingPass in tensorflow/core/grappler/optimizers/memory_optimizer.cc).
  if (spillway::tf::is_started()) {
    params->optimizer_configs->memory_optimization = TF_TriState_Off;
  }
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->create_func = spillway::tf::make_optimizer;
  params->optimizer->optimize_func = spillway::tf::optimize;
  params->optimizer->destroy_func = spillway::tf::destroy_optimizer;
  TF_SetStatus(status, TF_OK, "");
}

/// Starts by the environment's settings, before TensorFlow opens the plugin, for who can hear what
/// is wrong with them: that, to be freed by spillway_tensorflow_free, or null.
SPILLWAY_EXPORT char* spillway_tensorflow_start() {
  const std::string trouble = spillway::tf::start_session();
  return trouble.empty() ? nullptr : ::strdup(trouble.c_str());
}

/// Statistics as JSON, to be freed by spillway_tensorflow_free; null where nothing is managed.
SPILLWAY_EXPORT char* spillway_tensorflow_statistics() {
  if (spillway::tf::CardSession* const card = spillway::tf::CardSession::get()) {
    return ::strdup(card->statistics_json().c_str());
  }
  spillway::tf::Session* const session = spillway::tf::Session::get();
  return session == nullptr ? nullptr
                            : ::strdup(spillway::tf::to_json(session->final_figures()).c_str());
}

SPILLWAY_EXPORT void spillway_tensorflow_free(char* text) { std::free(text); }
