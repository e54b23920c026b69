// SPDX-License-Identifier: Apache-2.0
#include "card_copies.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <utility>

namespace spillway::tf {
namespace {

using ::tensorflow::AllocationAttributes;
using ::tensorflow::AllocatorAttributes;
using ::tensorflow::DeviceContext;
using ::tensorflow::Tensor;

std::uint64_t checksum_of(const Tensor& host) {
  return XXH3_64bits(host.data(), host.TotalBytes());
}

std::string text_of(const absl::Status& status) { return std::string(status.message()); }

std::string unsound(const char* made_by) {
  return fmt::format(
      "{} {}, so no tensor leaves the card any more. Train without SPILLWAY_BUDGET, and report "
      "this with the versions of TensorFlow and of the card's driver.",
      made_by, kOtherBytes);
}

}  // namespace

CardLink CardLink::of(DeviceContext& context, ::tensorflow::Device& device) {
  context.Ref();
  AllocatorAttributes page_locked;
  page_locked.set_on_host(true);
  page_locked.set_gpu_compatible(true);
  return {.context = {&context, [](DeviceContext* shared) { shared->Unref(); }},
          .device = &device,
          .page_locked = device.GetAllocator(page_locked)};
}

// What a call of the context works on. It lives until that calls back.
struct CardCopies::Out {
  Tensor tensor;  // on the card; let go before anybody hears of the end
  CardLink link;
  std::shared_ptr<CardCopy> copy;
  SwapOutDone done;
};

struct CardCopies::In {
  std::shared_ptr<CardCopy> copy;
  CardLink link;
  Tensor place;
  std::function<void(const std::string&)> done;
};

std::shared_ptr<CardCopy> CardCopies::reserve(const Tensor& like, const CardLink& link,
                                              std::string& reason) {
  const Bytes bytes{like.TotalBytes()};
  const Bytes held{host_.fetch_add(bytes.count) + bytes.count};
  if (held > host_budget_) {
    host_.fetch_sub(bytes.count);
    reason = fmt::format(
        "the machine's memory for what leaves the card is full: need {}, have {} of {}. Give a "
        "larger SPILLWAY_HOST_BUDGET.",
        to_string(bytes), to_string(saturating_sub(host_budget_, held - bytes)),
        to_string(host_budget_));
    return nullptr;
  }
  // A tensor that cannot leave at once stays: nobody waits here for memory.
  const AllocationAttributes without_waiting(false, true, nullptr);
  Tensor host(link.page_locked, like.dtype(), like.shape(), without_waiting);
  if (!host.IsInitialized()) {
    host_.fetch_sub(bytes.count);
    reason = fmt::format(
        "TensorFlow has no {} of page-locked memory: TF_GPU_HOST_MEM_LIMIT_IN_MB bounds it",
        to_string(bytes));
    return nullptr;
  }
  return std::make_shared<CardCopy>(*this, std::move(host));
}

CopyMaker::Ticket CardCopies::swap_out(const Held& tensor, Bytes /*bytes*/, SwapOutDone done,
                                       const char* made_by) {
  const auto& held = static_cast<const HeldCardTensor&>(tensor);
  if (differed_.load()) {
    done(nullptr, "");
    return 0;
  }
  std::string no_place;
  std::shared_ptr<CardCopy> copy = reserve(held.tensor(), held.link(), no_place);
  if (copy == nullptr) {
    done(nullptr, no_place);
    return 0;
  }
  copy->is_checked_ = held.is_checked();
  if (made_by != nullptr) copy->made_by_ = made_by;
  const auto out = std::make_shared<Out>(Out{.tensor = held.tensor(),
                                             .link = held.link(),
                                             .copy = std::move(copy),
                                             .done = std::move(done)});
  out->link.context->CopyDeviceTensorToCPU(
      &out->tensor, "spillway", out->link.device, &out->copy->host_,
      [this, out](const absl::Status& status) {
        if (!status.ok()) {
          end_out(out, "copying it from the card failed: " + text_of(status));
        } else if (!out->copy->is_checked_) {
          end_out(out, "");
        } else {
          out->copy->checksum_ = checksum_of(out->copy->host_);
          compare(out->tensor, out->link, *out->copy,
                  [this, out](const std::string& reason) { end_out(out, reason); });
        }
      });
  return 0;
}

void CardCopies::end_out(const std::shared_ptr<Out>& out, const std::string& reason) {
  std::shared_ptr<CardCopy> copy = std::move(out->copy);
  out->tensor = Tensor();
  if (reason.empty()) {
    out_.fetch_add(copy->bytes().count);
    out->done(std::move(copy), "");
    return;
  }
  failed_.fetch_add(1);
  copy.reset();
  out->done(nullptr, reason);
}

void CardCopies::bring_back(std::shared_ptr<CardCopy> copy, const CardLink& link,
                            const Tensor& place, std::function<void(const std::string&)> done) {
  const auto in = std::make_shared<In>(
      In{.copy = std::move(copy), .link = link, .place = place, .done = std::move(done)});
  in->link.context->CopyCPUTensorToDevice(
      &in->copy->host_, in->link.device, &in->place, [this, in](const absl::Status& status) {
        if (!status.ok()) {
          end_in(in, "copying it to the card failed: " + text_of(status));
        } else if (!in->copy->is_checked_) {
          end_in(in, "");
        } else {
          compare(in->place, in->link, *in->copy,
                  [this, in](const std::string& reason) { end_in(in, reason); });
        }
      });
}

void CardCopies::end_in(const std::shared_ptr<In>& in, const std::string& reason) {
  if (reason.empty()) {
    in_.fetch_add(in->copy->bytes().count);
  } else {
    failed_.fetch_add(1);
  }
  in->copy.reset();
  in->place = Tensor();
  in->done(reason);
}

void CardCopies::compare(const Tensor& on_card, const CardLink& link, const CardCopy& copy,
                         Compared compared) {
  std::string no_place;
  const std::shared_ptr<CardCopy> again = reserve(on_card, link, no_place);
  if (again == nullptr) {
    compared("");
    return;
  }
  link.context->CopyDeviceTensorToCPU(
      &on_card, "spillway", link.device, &again->host_,
      [this, again, &copy, compared = std::move(compared)](const absl::Status& status) {
        if (!status.ok()) {
          compared("copying it from the card to compare it failed: " + text_of(status));
          return;
        }
        checked_.fetch_add(1);
        if (checksum_of(again->host_) == copy.checksum_) {
          compared("");
          return;
        }
        differed_.store(true);
        compared(unsound(copy.made_by_));
      });
}

CardFigures CardCopies::figures() const {
  return {.host = {host_.load()},
          .host_budget = host_budget_,
          .out = {out_.load()},
          .in = {in_.load()},
          .failed = failed_.load(),
          .checked = checked_.load()};
}

}  // namespace spillway::tf
