// SPDX-License-Identifier: Apache-2.0
#include "variable_ops.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "finished_step.hpp"
#include "session.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/kernels/resource_variable_ops.h"
#include "variable_buffer.hpp"

namespace spillway::tf {
namespace {

using ::tensorflow::DataType;
using ::tensorflow::DataTypeString;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::Var;

// Above the framework's kernels, which have none.
constexpr int kPriority = 1;

absl::Status to_status(const std::string& reason) {
  if (reason.empty()) return absl::OkStatus();
  Session::get()->troubles().note_failure(reason);
  return absl::ResourceExhaustedError("Spillway could not reach a variable: " + reason);
}

absl::Status use(const Tensor& tensor) {
  if (Session::get()->knows_ops()) return absl::OkStatus();
  const VariableBuffer* const buffer = VariableBuffer::in(tensor);
  if (buffer == nullptr) return absl::OkStatus();
  return to_status(Session::get()->variables().use(buffer->memory()));
}

// The memory of the variable that an op is given, if it is of ours. Not the tensor: an update in
// place copies where somebody else holds that.
std::shared_ptr<VariableMemory> memory_of_input(OpKernelContext* context) {
  ::tensorflow::core::RefCountPtr<Var> variable;
  // The op that works on it says what is wrong.
  if (!::tensorflow::LookupResource(context, ::tensorflow::HandleFromInput(context, 0), &variable)
           .ok()) {
    return nullptr;
  }
  const ::tensorflow::tf_shared_lock lock(*variable->mu());
  const VariableBuffer* const buffer = VariableBuffer::in(*variable->tensor());
  return buffer == nullptr ? nullptr : buffer->memory().shared_from_this();
}

absl::Status use_input(OpKernelContext* context) {
  const std::shared_ptr<VariableMemory> memory = memory_of_input(context);
  return memory == nullptr ? absl::OkStatus() : to_status(Session::get()->variables().use(*memory));
}

absl::Status write(const Tensor& variable, const Tensor& value) {
  return to_status(Session::get()->variables().write(VariableBuffer::in(variable)->memory(),
                                                     static_cast<const std::byte*>(value.data())));
}

// Memory of our own with the bytes of `value`. `copy` stays empty where the store has no room.
absl::Status copy_of(const Tensor& value, const char* name, std::optional<Tensor>& copy) {
  auto memory = Session::get()->variables().make({value.TotalBytes()}, name);
  if (memory == nullptr) return absl::OkStatus();
  auto* const buffer = new VariableBuffer(std::move(memory));
  const Tensor fresh(value.dtype(), value.shape(), buffer);
  buffer->Unref();
  if (absl::Status status = write(fresh, value); !status.ok()) return status;
  copy = fresh;
  return absl::OkStatus();
}

// Variables that were left in memory, until there are more than may lie there: then they move.
class LeftInMemory {
 public:
  void add(Var* variable, Bytes bytes, const char* name) {
    const std::lock_guard lock(mutex_);
    variables_.push_back({WeakVar(variable), bytes, name});
  }

  // The program made and dropped them: others may lie in their place. A variable whose last owner
  // lets go of it meanwhile dies here, so no lock is held.
  void forget_dead() {
    for (const Left& left : take()) {
      const ::tensorflow::core::RefCountPtr<Var> variable = left.variable.GetNewRef();
      if (variable == nullptr) {
        Session::get()->variables().died_in_memory(left.bytes);
      } else {
        add(variable.get(), left.bytes, left.name);
      }
    }
  }

  // The caller holds the lock of `current`. Of another it is taken only where nobody has it, since
  // an op may hold several. A variable that somebody works on, or whose value somebody holds, moves
  // another time.
  absl::Status move(const Var& current) {
    absl::Status status;
    for (const Left& left : take()) {
      const ::tensorflow::core::RefCountPtr<Var> variable = left.variable.GetNewRef();
      if (variable == nullptr) continue;
      const bool moves = variable.get() != &current && variable->mu()->try_lock();
      if (moves) {
        if (status.ok()) status = move_locked(*variable, left.name);
        const bool stays = VariableBuffer::in(*variable->tensor()) == nullptr;
        variable->mu()->unlock();
        if (!stays) continue;
      }
      add(variable.get(), left.bytes, left.name);
    }
    return status;
  }

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  using WeakVar = ::tensorflow::core::WeakPtr<Var>;
  struct Left {
    WeakVar variable;
    Bytes bytes{};
    const char* name = nullptr;
  };

  std::vector<Left> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(variables_, {});
  }

  static absl::Status move_locked(Var& variable, const char* name) {
    if (!variable.is_initialized || !variable.tensor()->RefCountIsOne()) return absl::OkStatus();
    std::optional<Tensor> copy;
    absl::Status status = copy_of(*variable.tensor(), name, copy);
    if (copy) *variable.tensor() = *copy;
    return status;
  }

  std::mutex mutex_;
  std::vector<Left> variables_;
};

LeftInMemory& left_in_memory() {
  static LeftInMemory* const variables = new LeftInMemory;  // outlives every destructor
  return *variables;
}

// The framework's kernel does this: it checks, and makes the value's memory the variable's. Ours
// differs where the variable has memory of its own, into which it copies.
class AssignVariable : public OpKernel {
 public:
  explicit AssignVariable(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("dtype", &dtype_));
    if (construction->HasAttr("validate_shape")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("validate_shape", &validate_shape_));
    }
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& value = context->input(1);
    OP_REQUIRES(context, dtype_ == value.dtype(),
                absl::InvalidArgumentError(
                    absl::StrCat("Variable and value dtypes don't match; respectively, ",
                                 DataTypeString(dtype_), " and ", DataTypeString(value.dtype()))));
    ::tensorflow::core::RefCountPtr<Var> variable;
    OP_REQUIRES_OK(context, ::tensorflow::LookupOrCreateResource<Var>(
                                context, ::tensorflow::HandleFromInput(context, 0), &variable,
                                [this](Var** fresh) {
                                  *fresh = new Var(dtype_);
                                  return absl::OkStatus();
                                }));
    const ::tensorflow::mutex_lock lock(*variable->mu());
    const Tensor& old = *variable->tensor();
    OP_REQUIRES(context,
                (old.dtype() == ::tensorflow::DT_INVALID && !variable->is_initialized) ||
                    old.dtype() == dtype_,
                absl::InvalidArgumentError(
                    absl::StrCat("Trying to assign variable with wrong dtype. Expected ",
                                 DataTypeString(old.dtype()), " got ", DataTypeString(dtype_))));
    OP_REQUIRES(
        context,
        !validate_shape_ || !variable->is_initialized || old.shape().IsSameSize(value.shape()),
        absl::InvalidArgumentError(
            absl::StrCat("Trying to assign to variable with tensor with wrong shape. Expected ",
                         old.shape().DebugString(), " got ", value.shape().DebugString())));
    OP_REQUIRES_OK(context, assign(context, *variable, value));
    variable->is_initialized = true;
  }

 private:
  static absl::Status assign(OpKernelContext* context, Var& variable, const Tensor& value) {
    const bool has_own = VariableBuffer::in(*variable.tensor()) != nullptr;
    const bool is_itself =
        value.data() == variable.tensor()->data() && value.shape() == variable.tensor()->shape();
    if (has_own && is_itself) return absl::OkStatus();
    if (has_own && variable.tensor()->RefCountIsOne() &&
        variable.tensor()->shape() == value.shape()) {
      return write(*variable.tensor(), value);
    }
    const Bytes bytes{value.TotalBytes()};
    Variables& variables = Session::get()->variables();
    const bool is_new = !variable.is_initialized && variables.may_map(bytes);
    if (!has_own && !is_new) return assign_in_memory(context, variable, value);
    const char* const name =
        Session::get()->names().intern(variable_name(::tensorflow::HandleFromInput(context, 0)));
    if (is_new && variables.would_be_too_many(bytes)) left_in_memory().forget_dead();
    const bool maps_new = is_new && variables.maps_new(bytes);
    if (maps_new) {
      if (absl::Status status = left_in_memory().move(variable); !status.ok()) return status;
    } else if (is_new) {
      left_in_memory().add(&variable, bytes, name);
    }
    if (bytes.count != 0 && (has_own || maps_new)) {
      std::optional<Tensor> copy;
      if (absl::Status status = copy_of(value, name, copy); !status.ok()) return status;
      if (copy) {
        *variable.tensor() = *copy;
        return absl::OkStatus();
      }
    }
    return assign_in_memory(context, variable, value);
  }

  static absl::Status assign_in_memory(OpKernelContext* context, Var& variable,
                                       const Tensor& value) {
    if (!variable.copy_on_read_mode.load()) {
      *variable.tensor() = value;
      return absl::OkStatus();
    }
    Tensor copy;
    absl::Status status = context->allocate_temp(value.dtype(), value.shape(), &copy);
    if (!status.ok()) return status;
    if (value.TotalBytes() != 0) std::memcpy(copy.data(), value.data(), value.TotalBytes());
    *variable.tensor() = copy;
    return absl::OkStatus();
  }

  DataType dtype_ = ::tensorflow::DT_INVALID;
  bool validate_shape_ = false;
};

class ReadVariable : public ::tensorflow::ReadVariableOp {
 public:
  using ReadVariableOp::ReadVariableOp;

  // Before the framework's, which copies it where sparse updates made it copy on read. Whoever runs
  // this op by itself may read its result where no op shows it.
  void Compute(OpKernelContext* context) override {
    if (context->call_frame() == nullptr || !Session::get()->knows_ops()) {
      OP_REQUIRES_OK(context, use_input(context));
    }
    ReadVariableOp::Compute(context);
  }
};

class Use : public OpKernel {
 public:
  using OpKernel::OpKernel;
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    context->set_output(0, context->input(0));
    OP_REQUIRES_OK(context, use(context->input(0)));
  }
};

class Touch : public OpKernel {
 public:
  using OpKernel::OpKernel;
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    if (!Session::get()->knows_ops()) OP_REQUIRES_OK(context, use_input(context));
  }
};

class Rest : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* /*context*/) override {
    // There is one for each context of a graph that has updates.
    Session::get()->variables().end_step(reinterpret_cast<std::uintptr_t>(this));
  }
};

// As the framework's, which has its value in memory for as long as the graph is there.
class Constant : public OpKernel {
 public:
  explicit Constant(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("value", &value_));
    Variables& variables = Session::get()->variables();
    const Bytes bytes{value_.TotalBytes()};
    if (variables.would_be_too_many(bytes)) left_in_memory().forget_dead();
    if (!variables.maps_new(bytes)) {
      if (variables.may_map(bytes)) in_memory_ = bytes;
      return;
    }
    std::optional<Tensor> copy;
    const char* const name =
        Session::get()->names().intern(name_in_function(construction->def().name()));
    OP_REQUIRES_OK(construction, copy_of(value_, name, copy));
    if (copy) value_ = *copy;
  }
  ~Constant() override { Session::get()->variables().died_in_memory(in_memory_); }
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    context->set_output(0, value_);
    OP_REQUIRES_OK(context, use(value_));
  }

 private:
  Tensor value_;
  Bytes in_memory_{};  // that are counted there
};

REGISTER_OP("SpillwayConstant")
    .Output("output: dtype")
    .Attr("value: tensor")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* context) {
      const ::tensorflow::TensorProto* value = nullptr;
      absl::Status status = context->GetAttr("value", &value);
      ::tensorflow::shape_inference::ShapeHandle shape;
      if (status.ok()) status = context->MakeShapeFromShapeProto(value->tensor_shape(), &shape);
      if (status.ok()) context->set_output(0, shape);
      return status;
    });
REGISTER_KERNEL_BUILDER(Name("SpillwayConstant").Device(::tensorflow::DEVICE_CPU), Constant);

REGISTER_OP("SpillwayTouch")
    .Input("variable: resource")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
REGISTER_KERNEL_BUILDER(Name("SpillwayTouch").Device(::tensorflow::DEVICE_CPU), Touch);

REGISTER_OP("SpillwayRest")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });
REGISTER_KERNEL_BUILDER(Name("SpillwayRest").Device(::tensorflow::DEVICE_CPU), Rest);

REGISTER_OP("SpillwayUse")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .SetIsStateful()
    .SetShapeFn([](::tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("SpillwayUse").Device(::tensorflow::DEVICE_CPU), Use);

// Tensors of these types are their bytes.
const ::tensorflow::KernelDef* kernel_above(const char* op) {
  return ::tensorflow::register_kernel::Name(op)
      .Device(::tensorflow::DEVICE_CPU)
      .TypeConstraint(
          "dtype", {::tensorflow::DT_FLOAT, ::tensorflow::DT_DOUBLE, ::tensorflow::DT_INT32,
                    ::tensorflow::DT_UINT8, ::tensorflow::DT_INT16, ::tensorflow::DT_INT8,
                    ::tensorflow::DT_COMPLEX64, ::tensorflow::DT_INT64, ::tensorflow::DT_BOOL,
                    ::tensorflow::DT_BFLOAT16, ::tensorflow::DT_UINT16, ::tensorflow::DT_COMPLEX128,
                    ::tensorflow::DT_HALF, ::tensorflow::DT_UINT32, ::tensorflow::DT_UINT64})
      .Priority(kPriority)
      .Build();
}

}  // namespace

// To the names of variables that Python owns the framework adds `/` and a number.
std::string_view variable_name(const ::tensorflow::ResourceHandle& handle) {
  const std::string_view name = handle.name();
  if (!handle.IsRefCounting()) return name;
  const std::size_t number = name.rfind('/');
  return number == std::string_view::npos ? "variable" : name.substr(0, number);
}

void before_fork_of_variable_ops() { left_in_memory().before_fork(); }
void after_fork_of_variable_ops() { left_in_memory().after_fork(); }

void register_variable_ops() {
  using ::tensorflow::kernel_factory::OpKernelRegistrar;
  static const OpKernelRegistrar assign(kernel_above("AssignVariableOp"),
                                        "spillway::tf::AssignVariable",
                                        [](OpKernelConstruction* construction) -> OpKernel* {
                                          return new AssignVariable(construction);
                                        });
  static const OpKernelRegistrar read(kernel_above("ReadVariableOp"), "spillway::tf::ReadVariable",
                                      [](OpKernelConstruction* construction) -> OpKernel* {
                                        return new ReadVariable(construction);
                                      });
}

}  // namespace spillway::tf
