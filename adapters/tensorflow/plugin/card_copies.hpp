// SPDX-License-Identifier: Apache-2.0
// Copies of a card's tensors in page-locked memory of the machine, by the asynchronous calls of the
// framework's device context. No header of a card's vendor is needed.
//
//     swap_out(tensor)  page-locked memory ─> CopyDeviceTensorToCPU ─> done(copy)
//     bring_back(copy)  a tensor's memory  ─> CopyCPUTensorToDevice ─> done
//
// The context orders a copy behind what was launched before it, and calls back when its bytes are
// there; what has been given to it can't be taken back. A tensor whose copy is under way, and the
// memory that one is made into, live until the context has called back, whatever became of the op.
//
// *Checks.* Where a tensor is to be checked its copy gets a checksum, and what is on the card is
// copied out once more and compared with it: after the way out the tensor itself, which finds a
// copy that ran ahead of the op that makes it, and after the way in what came back. Who makes the
// tensor says whether that is wanted, for the first step as a rule. The first that differs is
// told; from then on no tensor leaves. Where there is no page-locked memory for a comparison it is
// left out: a step that fits must not fail for it.
//
// Ownership: a CardCopy gives its memory back with its last owner, and must not outlive the
// CardCopies. Thread-safe; no lock is held while anybody is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "copying.hpp"
#include "spillway/base/bytes.hpp"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"

namespace spillway::tf {

/// The way to a card that an op has, for after the op too.
struct CardLink {
  std::shared_ptr<::tensorflow::DeviceContext> context;
  ::tensorflow::Device* device = nullptr;  ///< of the framework, for the life of the process
  ::tensorflow::Allocator* page_locked = nullptr;  ///< likewise; memory of the machine

  /// Takes a share of `context`.
  static CardLink of(::tensorflow::DeviceContext& context, ::tensorflow::Device& device);
};

class HeldCardTensor final : public Held {
 public:
  HeldCardTensor(const ::tensorflow::Tensor& tensor, CardLink link, bool is_checked)
      : tensor_(tensor), link_(std::move(link)), is_checked_(is_checked) {}

  /// An address of the card's.
  [[nodiscard]] const std::byte* data() const override {
    return static_cast<const std::byte*>(tensor_.data());
  }
  [[nodiscard]] bool is_sole() const override { return tensor_.RefCountIsOne(); }
  [[nodiscard]] std::unique_ptr<Held> share() const override {
    return std::make_unique<HeldCardTensor>(tensor_, link_, is_checked_);
  }
  [[nodiscard]] const ::tensorflow::Tensor& tensor() const { return tensor_; }
  [[nodiscard]] const CardLink& link() const { return link_; }
  [[nodiscard]] bool is_checked() const { return is_checked_; }

 private:
  ::tensorflow::Tensor tensor_;
  CardLink link_;
  bool is_checked_;
};

class CardCopy;

struct CardFigures {
  Bytes host{};  ///< page-locked, of copies that are there or under way
  Bytes host_budget{};
  Bytes out{};  ///< of copies that ended well
  Bytes in{};
  std::uint64_t failed = 0;   ///< copies
  std::uint64_t checked = 0;  ///< comparisons
};

/// In the reason why a tensor stays, or its step fails, whose bytes differ after a copy.
inline constexpr std::string_view kOtherBytes =
    "has other bytes after a copy between this card and the machine";

class CardCopies final : public CopyMaker {
 public:
  explicit CardCopies(Bytes host_budget) : host_budget_(host_budget) {}

  /// `tensor` is a HeldCardTensor.
  Ticket swap_out(const Held& tensor, Bytes bytes, SwapOutDone done, const char* made_by) override;
  bool cancel_out(Ticket /*ticket*/) override { return false; }

  /// Fills `place`, of the card's memory, with the copy's bytes. `done` is called once with the
  /// reason why not, empty where they are there; perhaps before this returns.
  void bring_back(std::shared_ptr<CardCopy> copy, const CardLink& link,
                  const ::tensorflow::Tensor& place, std::function<void(const std::string&)> done);

  [[nodiscard]] CardFigures figures() const;

 private:
  friend class CardCopy;
  struct Out;
  struct In;
  using Compared = std::function<void(const std::string& reason)>;

  /// Page-locked memory for the copy of such a tensor within the budget; null, and why.
  std::shared_ptr<CardCopy> reserve(const ::tensorflow::Tensor& like, const CardLink& link,
                                    std::string& reason);
  void end_out(const std::shared_ptr<Out>& out, const std::string& reason);
  void end_in(const std::shared_ptr<In>& in, const std::string& reason);
  /// Copies what is on the card out, and tells whether it has the checksum of `copy`. All three
  /// live until `compared` has gone.
  void compare(const ::tensorflow::Tensor& on_card, const CardLink& link, const CardCopy& copy,
               Compared compared);

  const Bytes host_budget_;
  std::atomic<std::uint64_t> host_{0};
  std::atomic<std::uint64_t> out_{0};
  std::atomic<std::uint64_t> in_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::atomic<std::uint64_t> checked_{0};
  std::atomic<bool> differed_{false};  // a checksum
};

/// A tensor's bytes in page-locked memory.
class CardCopy final : public Copy {
 public:
  CardCopy(CardCopies& owner, ::tensorflow::Tensor host)
      : Copy({host.TotalBytes()}), owner_(owner), host_(std::move(host)) {}
  ~CardCopy() override { owner_.host_.fetch_sub(bytes().count); }

 private:
  friend class CardCopies;

  CardCopies& owner_;
  ::tensorflow::Tensor host_;
  std::uint64_t checksum_ = 0;  // where it is checked
  bool is_checked_ = false;
  const char* made_by_ = "a tensor";
};

}  // namespace spillway::tf
