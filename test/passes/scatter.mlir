// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-scatter)' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-scatter,lamina-fuse,lamina-plan)' | FileCheck %s --check-prefix=PLAN

// Every position of the values gets an index of each dimension. Negative indices of index_put count from the end. The argument is
// written by the kernel that computes the values.
// CHECK-LABEL: func.func @main
// CHECK: %[[NEW:.*]] = linalg.generic {{.*}} ins(%arg2 : tensor<3x2xf32>)
// CHECK: %[[I:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<3x2xi64>)
// CHECK: linalg.index 0
// CHECK: %[[J:.*]] = linalg.generic {{.*}} ins(%arg1 : tensor<2xi64>) outs(%{{.*}} : tensor<3x2xi64>)
// CHECK: arith.addi
// CHECK: arith.cmpi slt
// CHECK: arith.select
// CHECK: "graph.scatter"(%arg0, %[[NEW]], %[[I]], %[[J]]) {in_place} : (tensor<3x40xf32>, tensor<3x2xf32>, tensor<3x2xi64>, tensor<3x2xi64>) -> tensor<3x40xf32>
// PLAN: %0 = "plan.input"() {index = 0 : i64}
// PLAN: "plan.launch"(%{{.*}}, %{{.*}}, %0, %0) {inplace = [array<i64: 2, 3>], kernel
// PLAN-NEXT: "plan.return"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%cache: tensor<3x40xf32>, %at: tensor<2xi64>, %x: tensor<3x2xf32>) {
  %e = tensor.empty() : tensor<3x2xf32>
  %new = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<3x2xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<3x2xf32>
  %0 = "graph.extern"(%cache, %at, %new) {args = [unit, [none, unit], unit], callee = "aten.index_put_.default", graph.effect, kwargs = {}, reason = "scatter", strides = [array<i64: 40, 1>]} : (tensor<3x40xf32>, tensor<2xi64>, tensor<3x2xf32>) -> tensor<3x40xf32>
  return
}

// -----

// Indices with a dimension between them come first among the dimensions of the values; sizes of 1 are repeated. What is to stay as it
// is is copied.
// CHECK-LABEL: func.func @main
// CHECK: "graph.scatter"(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (tensor<4x5x6xf32>, tensor<2x3x5xf32>, tensor<2x3x5xi64>, tensor<2x3x5xi64>, tensor<2x3x5xi64>)
// PLAN: "plan.launch"(%{{.*}}, %[[OUT:.*]]) {kernel = @copy,
// PLAN: "plan.launch"(%{{.*}}, %{{.*}}, %{{.*}}, %[[OUT]], %[[OUT]]) {inplace
// PLAN: "plan.return"(%[[OUT]])
func.func @main(%x: tensor<4x5x6xf32>, %i: tensor<2x1xi64>, %j: tensor<3xi32>, %v: tensor<1x5xf32>) -> tensor<4x5x6xf32> {
  %0 = "graph.extern"(%x, %i, %j, %v) {args = [unit, [unit, none, unit], unit], callee = "aten.index_put.default", kwargs = {}, reason = "scatter", strides = [array<i64: 30, 6, 1>]} : (tensor<4x5x6xf32>, tensor<2x1xi64>, tensor<3xi32>, tensor<1x5xf32>) -> tensor<4x5x6xf32>
  return %0 : tensor<4x5x6xf32>
}

// -----

// A number becomes a tensor. What nothing else reads is written in place.
// CHECK-LABEL: func.func @main
// CHECK: arith.constant 2.500000e+00 : f32
// CHECK: "graph.scatter"
// PLAN: "plan.launch"(%[[OUT:.*]]) {kernel = @{{.*}}, n_out = 1 : i64}
// PLAN: "plan.launch"(%{{.*}}, %[[OUT]], %[[OUT]]) {inplace
// PLAN: "plan.return"(%[[OUT]])
func.func @main(%at: tensor<2x3xi64>) -> tensor<2x8xf32> {
  %z = arith.constant dense<0.0> : tensor<2x8xf32>
  %0 = "graph.extern"(%z, %at) {args = [unit, -1, unit, 2.5], callee = "aten.scatter.value", kwargs = {}, reason = "scatter", strides = [array<i64: 8, 1>]} : (tensor<2x8xf32>, tensor<2x3xi64>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// What accumulates or reduces is combined with what is there.
// CHECK-LABEL: func.func @main
// CHECK: "graph.scatter"(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) {combine = "arith.addf", in_place}
// CHECK: "graph.scatter"(%arg1, %{{.*}}, %{{.*}}) {combine = "arith.addi"}
// CHECK: "graph.scatter"(%arg1, %{{.*}}, %{{.*}}) {combine = "arith.maxsi"}
func.func @main(%x: tensor<30x8xf32>, %n: tensor<5xi32>, %i: tensor<9xi64>, %v: tensor<9x8xf32>, %w: tensor<9xi32>) -> (tensor<5xi32>, tensor<5xi32>) {
  %0 = "graph.extern"(%x, %i, %v) {args = [unit, [unit], unit, true], callee = "aten.index_put_.default", graph.effect, kwargs = {}, reason = "scatter", strides = [array<i64: 8, 1>]} : (tensor<30x8xf32>, tensor<9xi64>, tensor<9x8xf32>) -> tensor<30x8xf32>
  %1 = "graph.extern"(%n, %i, %w) {args = [unit, 0, unit, unit], callee = "aten.scatter_add.default", kwargs = {}, reason = "scatter", strides = [array<i64: 1>]} : (tensor<5xi32>, tensor<9xi64>, tensor<9xi32>) -> tensor<5xi32>
  %2 = "graph.extern"(%n, %i, %w) {args = [unit, 0, unit, unit, "amax"], callee = "aten.scatter_reduce.two", kwargs = {}, reason = "scatter", strides = [array<i64: 1>]} : (tensor<5xi32>, tensor<9xi64>, tensor<9xi32>) -> tensor<5xi32>
  return %1, %2 : tensor<5xi32>, tensor<5xi32>
}
