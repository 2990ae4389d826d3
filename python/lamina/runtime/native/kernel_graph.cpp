#include "kernel_graph.h"

namespace lamina::cuda {
namespace {

const LaunchAttribute *find(const LaunchConfig &config, int id) {
  for (const LaunchAttribute *a = config.attributes; a != config.attributes + config.attribute_count; ++a)
    if (a->id == id) return a;
  return nullptr;
}

} // namespace

KernelGraph::KernelGraph(Driver &driver) : driver_(driver) {
  driver_.check(driver_.create_graph(&graph_, 0), "a graph cannot be made");
}

Result KernelGraph::add(const LaunchConfig &c, FunctionHandle function, void **parameters) {
  KernelNodeParams params{function,    c.grid_x,       c.grid_y,   c.grid_z, c.block_x, c.block_y,
                          c.block_z, c.shared_bytes, parameters, nullptr,  nullptr,   nullptr};
  bool early = last_ && driver_.add_edges && find(c, kDependentLaunch);
  NodeHandle node = nullptr;
  if (Result result = driver_.add_kernel(&node, graph_, &last_, last_ && !early, &params)) return result;
  if (const LaunchAttribute *cluster = find(c, kClusterDimension))
    if (Result result = driver_.set_node_attribute(node, kClusterDimension, &cluster->value)) return result;
  if (early) {
    EdgeData edge{kPortProgrammatic, 0, kEdgeProgrammatic, {}};
    if (Result result = driver_.add_edges(graph_, &last_, &node, &edge, 1)) return result;
  }
  last_ = node;
  return 0;
}

} // namespace lamina::cuda
