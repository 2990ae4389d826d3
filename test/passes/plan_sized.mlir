// Memory of sizes that each call decides: layouts and bytes are expressions.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

// Two groups that differ in where their sizes stand share a kernel; a size of @main goes into the group that uses it.
// CHECK: %[[X:.*]] = "plan.input"() {index = 0 : i64, layout = {{\[}}["s0~8", 16], array<i64: 16, 1>]} : () -> memref<?x16xf32>
// CHECK: %[[A:.*]] = "plan.alloc"() {bytes = "64*s0~8", layout = {{\[}}["s0~8", 16], array<i64: 16, 1>], offset = {{.*}}} : () -> memref<?x16xf32>
// CHECK-NEXT: "plan.launch"(%[[X]], %[[A]]) {kernel = @relu, label = "relu", n_out = 1 : i64}
// CHECK: "plan.alloc"() {bytes = "64*s0~8", {{.*}} offset = [[AT:[0-9]+]] : i64}
// CHECK-NEXT: "plan.call"
// CHECK-NEXT: "plan.alloc"() {bytes = "64*s0~8", {{.*}} offset = [[AT]] : i64}
// CHECK-NEXT: "plan.launch"{{.*}} {inplace = [array<i64: 0, 1>], kernel = @relu, label = "relu2", n_out = 1 : i64}
// CHECK: "plan.output"() {index = 0 : i64, layout = {{\[}}["s0~8", 16], array<i64: 16, 1>]}
// CHECK: arena_bytes = 1024 : i64, lower_bound = 1024 : i64, sum_bytes = 1536 : i64
// CHECK: func.func private @relu(%{{.*}}: tensor<?x16xf32, ["s0~8", 16]>)
// CHECK-NEXT: graph.size
// CHECK-NOT: func.func
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<?x16xf32, ["s0~8", 16]>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, ["s0~8", 16]> {
  %outer = "graph.size"() {size = "s0~8"} : () -> index
  %a = "graph.group"(%x) ({
  ^bb0(%in: tensor<?x16xf32, ["s0~8", 16]>):
    %e = tensor.empty(%outer) : tensor<?x16xf32, ["s0~8", 16]>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
    ^bb0(%i: f32, %o: f32):
      %c = arith.constant 0.0 : f32
      %y = arith.maximumf %i, %c : f32
      linalg.yield %y : f32
    } -> tensor<?x16xf32, ["s0~8", 16]>
    "graph.yield"(%r) : (tensor<?x16xf32, ["s0~8", 16]>) -> ()
  }) {sym_name = "relu"} : (tensor<?x16xf32, ["s0~8", 16]>) -> tensor<?x16xf32, ["s0~8", 16]>
  %m = "graph.extern"(%a, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 16, 1>]} : (tensor<?x16xf32, ["s0~8", 16]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["s0~8", 16]>
  %b = "graph.group"(%m) ({
  ^bb0(%in: tensor<?x16xf32, ["s0~8", 16]>):
    %n = "graph.size"() {size = "s0~8"} : () -> index
    %e = tensor.empty(%n) : tensor<?x16xf32, ["s0~8", 16]>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%in : tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
    ^bb0(%i: f32, %o: f32):
      %c = arith.constant 0.0 : f32
      %y = arith.maximumf %i, %c : f32
      linalg.yield %y : f32
    } -> tensor<?x16xf32, ["s0~8", 16]>
    "graph.yield"(%r) : (tensor<?x16xf32, ["s0~8", 16]>) -> ()
  }) {sym_name = "relu2"} : (tensor<?x16xf32, ["s0~8", 16]>) -> tensor<?x16xf32, ["s0~8", 16]>
  %c = "graph.extern"(%b, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 16, 1>]} : (tensor<?x16xf32, ["s0~8", 16]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["s0~8", 16]>
  return %c : tensor<?x16xf32, ["s0~8", 16]>
}
