// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/engine.hpp"

namespace spillway::runtime {

/// An open frame of the calling thread, or none. It ends with the object at the latest: whatever
/// was thrown meanwhile, and whether or not the engine watches by then. One that stayed open would
/// make every later op of the thread a nested one, which unpins nothing.
///
/// Used by one thread, inner frames ending before outer ones.
class FrameScope {
 public:
  FrameScope() = default;
  FrameScope(FrameScope&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
  FrameScope& operator=(FrameScope&& other) noexcept {
    end();
    engine_ = std::exchange(other.engine_, nullptr);
    return *this;
  }
  ~FrameScope() { end(); }

  /// Begins a frame, where none is open. If that throws half-way, what has begun ends as well.
  void begin(Engine& engine, const Engine::Op& op) {
    engine_ = &engine;
    engine.begin_frame(op);
  }

  /// Ends the frame now: see Engine::end_frame. Zero if none is open.
  Bytes end() {
    Engine* const engine = std::exchange(engine_, nullptr);
    return engine == nullptr ? Bytes{} : engine->end_frame();
  }

 private:
  Engine* engine_ = nullptr;
};

}  // namespace spillway::runtime
