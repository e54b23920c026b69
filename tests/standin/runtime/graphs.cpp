// SPDX-License-Identifier: Apache-2.0
// Graphs of the runtime's functions: captured from streams, and launched as a whole.
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/answer.hpp"

using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Graph = std::shared_ptr<const CapturedGraph>;

template <typename Handle>
Graph& graph_of(Handle handle) {
  return *reinterpret_cast<Graph*>(handle);
}
template <typename Handle>
Handle handle_to(Graph graph) {
  return reinterpret_cast<Handle>(new Graph(std::move(graph)));
}

}  // namespace

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  const auto wanted = static_cast<CaptureMode>(*mode);
  *mode = static_cast<cudaStreamCaptureMode>(std::exchange(CaptureDevice::thread_mode(), wanted));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return answer(stand_in_card().begin_capture(stream_of(stream), static_cast<CaptureMode>(mode)));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  auto captured = std::make_shared<CapturedGraph>();
  const auto status = stand_in_card().end_capture(stream_of(stream), *captured);
  *graph = status.done() ? handle_to<cudaGraph_t>(std::move(captured)) : nullptr;
  return answer(status);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id,  // NOLINT(google-runtime-int)
                                     cudaGraph_t*, const cudaGraphNode_t**,
                                     const cudaGraphEdgeData**, std::size_t*) {
  const CaptureDevice::Info info = stand_in_card().capture_of(stream_of(stream));
  *status = static_cast<cudaStreamCaptureStatus>(info.status);
  if (id != nullptr) *id = info.id;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {  // NOLINT(google-runtime-int)
  *executable = handle_to<cudaGraphExec_t>(graph_of(graph));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags) {  // NOLINT
  return cudaGraphInstantiate(executable, graph, flags);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) unmodelled("a graph's nodes");
  *count = graph_of(graph)->size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return answer(stand_in_card().replay(*graph_of(executable), stream_of(stream)));
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete &graph_of(executable);
  return cudaSuccess;
}
}
