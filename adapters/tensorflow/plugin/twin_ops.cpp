// SPDX-License-Identifier: Apache-2.0
// Ops by which twins (twins.hpp) ask whether to compute a tensor again, and report that they did.
//
// The answer is one value for all gates of a twin, so that either all of its inputs come or none
// does. Both ops are stateful, or the framework would merge and fold them.
#include "op_attributes.hpp"
#include "session.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace spillway::tf {
namespace {

using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

class Recomputes : public OpKernel {
 public:
  explicit Recomputes(OpKernelConstruction* construction)
      : OpKernel(construction), hole_(number_of(construction, "hole")) {}
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    Tensor* answer = nullptr;
    const auto status = context->allocate_output(0, {}, &answer);
    if (!status.ok()) {
      context->SetStatus(status);
      return;
    }
    Session* const session = Session::get();
    answer->scalar<bool>()() =
        session != nullptr && session->table().recomputes(hole_, {context->input(0).TotalBytes()});
  }

 private:
  std::uint64_t hole_;
};

class Twin : public OpKernel {
 public:
  explicit Twin(OpKernelConstruction* construction)
      : OpKernel(construction),
        hole_(number_of(construction, "hole")),
        ops_(number_of(construction, "ops")) {}
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    const Tensor& tensor = context->input(0);
    const Bytes bytes{tensor.TotalBytes()};
    context->set_output(0, tensor);
    Session* const session = Session::get();
    if (session == nullptr) return;
    session->table().recomputed(ops_, bytes);
    if (session->profiler() != nullptr) {
      session->profiler()->made_again(hole_, {static_cast<const std::byte*>(tensor.data()), bytes});
    }
  }

 private:
  std::uint64_t hole_;
  std::uint64_t ops_;
};

REGISTER_OP("SpillwayRecomputes")
    .Input("x: T")
    .Output("y: bool")
    .Attr("T: type")
    .Attr("hole: int")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });
REGISTER_OP("SpillwayTwin")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("hole: int")
    .Attr("ops: int")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("SpillwayRecomputes").Device(::tensorflow::DEVICE_CPU), Recomputes);
REGISTER_KERNEL_BUILDER(Name("SpillwayTwin").Device(::tensorflow::DEVICE_CPU), Twin);

}  // namespace
}  // namespace spillway::tf
